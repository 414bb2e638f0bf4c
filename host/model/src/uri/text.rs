//! The common implementation of the module's types: validated texts.

/// Implements access to the text of a type, in its field `text`.
macro_rules! str_newtype {
    ($type:ident) => {
        impl $type {
            /// Returns the text, in normal form.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.text
            }
        }

        impl AsRef<str> for $type {
            fn as_ref(&self) -> &str {
                &self.text
            }
        }

        impl std::borrow::Borrow<str> for $type {
            fn borrow(&self) -> &str {
                &self.text
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(&self.text)
            }
        }

        impl From<$type> for String {
            fn from(value: $type) -> Self {
                value.text
            }
        }

        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.text)
            }
        }
    };
}

pub(super) use str_newtype;
