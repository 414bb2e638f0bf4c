//! What the module's types have in common: each is a checked text.

/// Lets a type that is its own text, in a field `text`, be used as one.
macro_rules! str_newtype {
    ($type:ident) => {
        impl $type {
            /// The text, in normal form.
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
