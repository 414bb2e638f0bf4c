//! Declarations of the config's keys. Each key is declared once, as a field; reading, default, JSON Schema and the
//! suggestions for misspelled keys are derived from it.
//!
//! | macro | declares |
//! |---|---|
//! | [`table!`] | a table: a struct whose fields are keys |
//! | [`named_enum!`] | an enum whose values are names: `mode = "rw"` |
//! | [`checked_text!`] | a text with a validity check, and its error |
//! | [`from_text!`] | how a type with `FromStr` is read from a string |
//! | [`written_as!`] | how a type is read that has the syntax of another type |
//! | [`one_line!`], [`non_empty!`] | a text that is stored as a `String` |
//! | [`list_type!`] | a list that is stored in another form, or whose entries depend on each other |
//!
//! A table, with every kind of key:
//!
//! ```text
//! table! {
//!     /// A shop: `[shop]`.
//!     #[derive(Clone, Debug, PartialEq, Eq)]
//!     pub struct Shop as "a table about a shop", such as "{ name = \"books\" }" {
//!         /// The name in messages.
//!         #[required]
//!         pub name: ShopName,
//!         /// The address of its page. None unless set.
//!         pub url: Option<EndpointUrl>,
//!         /// The number of shelves. 8 unless set; 1 to 64.
//!         pub shelf_count: Count<1, 8, 64>,
//!         /// Whether it is open. `true` unless set.
//!         #[default(true)]
//!         pub open: bool,
//!         /// The name for people. `Title` says how it is written, and its only field is what is stored.
//!         #[read(Title)]
//!         pub title: Option<String>,
//!         /// The names of its owners, each written as a `Title`.
//!         #[read_each(Title)]
//!         pub owners: Vec<String>,
//!     }
//! }
//! ```
//!
//! A field with `#[internal]` is not a key: it has its default, and other code of the crate sets it.
//!
//! The key of `shelf_count` is `shelf-count`, and it has the documentation of the field. Attributes stand below the
//! documentation, in the order above. If the value of a required key with an `Option` type is invalid, which has been
//! reported, the field is `None`. `Shop::with_defaults(name)` is private: a shop with the given required keys and the
//! defaults of the others.
//!
//! Without `as …, such as …` only the keys are declared. Implement [`FromTable`](super::reader::FromTable) for the
//! table if keys can conflict, or if the value has another form than the table.
//!
//! Keys do not depend on cargo features: a program passes its features when it uses a config
//! ([`Config::check_features`](super::Config::check_features)).

/// Declares a table as a struct whose fields are keys: see [the module](self).
macro_rules! table {
    (
        $(#[$attribute:meta])*
        $vis:vis struct $name:ident as $type_name:literal, such as $example:literal { $($fields:tt)* }
    ) => {
        $crate::declare::table! { $(#[$attribute])* $vis struct $name { $($fields)* } }

        impl $crate::reader::FromTable for $name {
            type Keys = Self;

            const TYPE_NAME: &'static str = $type_name;

            fn example() -> String {
                $example.to_owned()
            }

            fn from_keys(keys: Self, _: &$crate::reader::Table<'_>) -> Option<Self> {
                Some(keys)
            }
        }
    };
    (
        $(#[$attribute:meta])*
        $vis:vis struct $name:ident {
            $(
                $(#[doc = $text:literal])*
                $(#[internal $($internal:tt)?])?
                $(#[required $($required:tt)?])?
                $(#[read($reader:ty)])?
                $(#[read_each($each:ty)])?
                $(#[default($default:expr)])?
                $field_vis:vis $field:ident: $type:ty,
            )*
        }
    ) => {
        $(#[$attribute])*
        $vis struct $name {
            $($(#[doc = $text])* $field_vis $field: $type,)*
        }

        impl $crate::reader::Keys for $name {
            const DOCS: $crate::reader::KeyDocs =
                &[$((stringify!($field), concat!($($text, "\n"),*)),)*];

            fn read(table: &mut $crate::reader::Table<'_>) -> Option<Self> {
                $(
                    let $field = $crate::declare::read_key!(
                        (table, stringify!($field), $type)
                        $(internal $($internal)?)? $(required $($required)?)? $(read($reader))? $(read_each($each))? $(default($default))?
                    );
                )*
                Some(Self {
                    $($field: $crate::declare::field_value!($field $(required $($required)?)?),)*
                })
            }
        }

        impl $name {
            /// The table with the given required keys, and the defaults of the others.
            #[allow(dead_code, reason = "only types that are also made in code need it")]
            fn with_defaults($($($field: $type, $($required)?)?)*) -> Self {
                Self {
                    $(
                        $field: $crate::declare::field_default!(
                            $field $(required $($required)?)? $(default($default))?
                        ),
                    )*
                }
            }
        }
    };
}

/// Reads one key of a [`table!`]. A required key is `None` if it is missing or invalid.
macro_rules! read_key {
    (($table:ident, $name:expr, $type:ty) internal) => {
        <$type as Default>::default()
    };
    (($table:ident, $name:expr, $type:ty)) => {
        <$type as $crate::reader::FromKey>::optional($table, $name)
    };
    (($table:ident, $name:expr, $type:ty) required) => {
        <$type as $crate::reader::FromKey>::required($table, $name)
    };
    (($table:ident, $name:expr, $type:ty) required read($reader:ty)) => {
        <$type as $crate::reader::Stored<_>>::required($table.required::<$reader>($name).map(|read: $reader| read.0))
    };
    (($table:ident, $name:expr, $type:ty) read($reader:ty)) => {
        <$type as $crate::reader::Stored<_>>::optional($table.optional::<$reader>($name).map(|read: $reader| read.0))
    };
    (($table:ident, $name:expr, $type:ty) read_each($each:ty)) => {
        $table.or_default::<Vec<$each>>($name).into_iter().map(|read: $each| read.0).collect()
    };
    (($table:ident, $name:expr, $type:ty) default($default:expr)) => {
        $table.optional::<$type>($name).unwrap_or_else(|| $default)
    };
    (($table:ident, $name:expr, $type:ty) read($reader:ty) default($default:expr)) => {
        $table.optional::<$reader>($name).map_or_else(|| $default, |read: $reader| read.0)
    };
}

/// The value of a field of a [`table!`] whose key has been read.
macro_rules! field_value {
    ($field:ident) => {
        $field
    };
    ($field:ident required) => {
        $field?
    };
}

/// The value of a field of a [`table!`] whose key is not set.
macro_rules! field_default {
    ($field:ident) => {
        Default::default()
    };
    ($field:ident required) => {
        $field
    };
    ($field:ident default($default:expr)) => {
        $default
    };
}

/// Declares an enum whose values are names in the config:
///
/// ```text
/// named_enum! {
///     /// A day of the weekend.
///     #[derive(PartialOrd, Ord)]
///     pub enum Weekend as "a day of the weekend", such as "\"sat\"" {
///         /// The first day.
///         Saturday = "sat",
///         /// The second day.
///         Sunday = "sun",
///     }
/// }
/// ```
///
/// `, default Saturday` after the example declares the default, which the schema shows. With `, unless is_weekday`, a
/// function `fn(&Node<'_>) -> bool` rejects values that need a specific error.
macro_rules! named_enum {
    (
        $(#[$attribute:meta])*
        $vis:vis enum $name:ident as $type_name:literal, such as $example:literal
        $(, default $default:ident)? $(, unless $is_rejected:path)? {
            $($(#[$value_attribute:meta])* $value:ident = $text:literal,)*
        }
    ) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $vis enum $name {
            $($(#[$value_attribute])* $value,)*
        }

        impl $name {
            /// All values.
            $vis const ALL: [Self; [$($text),*].len()] = [$(Self::$value),*];

            /// Returns the value's name in the config.
            $vis fn name(self) -> &'static str {
                match self {
                    $(Self::$value => $text,)*
                }
            }
        }

        $(
            impl Default for $name {
                fn default() -> Self {
                    Self::$default
                }
            }
        )?

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }

        impl $crate::reader::FromNode for $name {
            const TYPE_NAME: &'static str = $type_name;

            fn example() -> String {
                $example.to_owned()
            }

            fn schema() -> $crate::reader::Schema {
                let schema = $crate::reader::Schema::one_of_names(Self::ALL.map(Self::name));
                $(let schema = schema.with("default", Self::$default.name());)?
                schema
            }

            fn from_node(node: &$crate::reader::Node<'_>) -> Option<Self> {
                $(
                    if $is_rejected(node) {
                        return None;
                    }
                )?
                node.one_of(&Self::ALL.map(|value| (value.name(), value)))
            }
        }
    };
}

/// Declares how a type with `FromStr` is read from a string: its name in messages, an example as TOML, and its schema.
///
/// ```text
/// from_text!(PluginName, "a plugin name", "\"linux\"", Schema::pattern("^[a-z0-9-]{1,64}$"));
/// ```
macro_rules! from_text {
    ($type:ty, $type_name:literal, $example:expr, $schema:expr) => {
        impl $crate::reader::FromNode for $type {
            const TYPE_NAME: &'static str = $type_name;

            fn example() -> String {
                $example.into()
            }

            fn schema() -> $crate::reader::Schema {
                $schema
            }

            fn from_node(node: &$crate::reader::Node<'_>) -> Option<Self> {
                node.parse()
            }
        }
    };
}

/// Declares how a type is read that has the syntax of another type:
///
/// ```text
/// written_as! {
///     ShopUrl as EndpointUrl, such as "\"https://books.example.com\"",
///     |node| EndpointUrl::from_node(node).filter(|url| !url.has_query()).map(Self)
/// }
/// ```
///
/// Without `such as`, the example of the other type is used.
macro_rules! written_as {
    ($type:ty as $base:ty, |$node:ident| $read:expr) => {
        $crate::declare::written_as! {
            $type as $base, such as <$base as $crate::reader::FromNode>::example(), |$node| $read
        }
    };
    ($type:ty as $base:ty, such as $example:expr, |$node:ident| $read:expr) => {
        impl $crate::reader::FromNode for $type {
            const TYPE_NAME: &'static str = <$base as $crate::reader::FromNode>::TYPE_NAME;

            fn example() -> String {
                $example.into()
            }

            fn schema() -> $crate::reader::Schema {
                <$base as $crate::reader::FromNode>::schema()
            }

            fn from_node($node: &$crate::reader::Node<'_>) -> Option<Self> {
                $read
            }
        }
    };
}

/// Declares a text with a validity check, and the error for an invalid text:
///
/// ```text
/// checked_text! {
///     /// The name of a shop: at most 64 of `a-z`.
///     pub struct ShopName, ShopNameError as "the name of a shop", such as "\"books\"",
///     schema Schema::pattern("^[a-z]{1,64}$"),
///     valid if |text| (1..=64).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_lowercase()),
///     otherwise "write at most 64 of a-z, such as `name = \"books\"`"
/// }
/// ```
///
/// `otherwise` is the suggestion for an invalid text: a literal, or with `|written, key|` an expression of the text and
/// of its key.
macro_rules! checked_text {
    (
        $(#[$attribute:meta])*
        pub struct $name:ident, $error:ident as $type_name:literal, such as $example:literal, schema $schema:expr,
        valid if $is_valid:expr, otherwise $help:literal
    ) => {
        $crate::declare::checked_text! {
            $(#[$attribute])*
            pub struct $name, $error as $type_name, such as $example, schema $schema,
            valid if $is_valid, otherwise |_, _| $help.to_owned()
        }
    };
    (
        $(#[$attribute:meta])*
        pub struct $name:ident, $error:ident as $type_name:literal, such as $example:literal, schema $schema:expr,
        valid if $is_valid:expr, otherwise $help:expr
    ) => {
        $(#[$attribute])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(String);

        #[doc = concat!("A text that is not ", $type_name, ".")]
        #[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
        #[error("{} is not {}", $crate::diagnostic::quote(.0), $type_name)]
        pub struct $error(String);

        impl $name {
            /// Returns the text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl std::str::FromStr for $name {
            type Err = $error;

            fn from_str(text: &str) -> Result<Self, $error> {
                let is_valid: fn(&str) -> bool = $is_valid;
                if is_valid(text) { Ok(Self(text.to_owned())) } else { Err($error(text.to_owned())) }
            }
        }

        impl $crate::diagnostic::Suggest for $error {
            fn suggestion(&self, key: &str) -> String {
                let help: fn(&str, &str) -> String = $help;
                help(&self.0, key)
            }
        }

        $crate::declare::from_text!($name, $type_name, $example, $schema);
    };
}

/// Declares texts of one line that are not blank, each with an example: `Title, "\"Team notes\"";`
macro_rules! one_line {
    ($($(#[$attribute:meta])* $vis:vis struct $name:ident, $example:literal;)*) => {$(
        $(#[$attribute])*
        $vis struct $name($vis String);

        impl $crate::reader::FromNode for $name {
            const TYPE_NAME: &'static str = "a string";

            fn example() -> String {
                $example.into()
            }

            fn schema() -> $crate::reader::Schema {
                $crate::reader::Schema::pattern(r"\S")
            }

            fn from_node(node: &$crate::reader::Node<'_>) -> Option<Self> {
                node.one_line::<Self>().map(Self)
            }
        }
    )*};
}

/// Declares a text that is not empty: its name in messages, an example, and the message and the correction for an empty
/// text.
macro_rules! non_empty {
    (
        $(#[$attribute:meta])*
        $vis:vis struct $name:ident($field_vis:vis String), $type_name:literal, $example:literal, $message:literal, $help:literal
    ) => {
        $(#[$attribute])*
        $vis struct $name($field_vis String);

        impl $crate::reader::FromNode for $name {
            const TYPE_NAME: &'static str = $type_name;

            fn example() -> String {
                $example.into()
            }

            fn schema() -> $crate::reader::Schema {
                $crate::reader::Schema::string().with("minLength", 1)
            }

            fn from_node(node: &$crate::reader::Node<'_>) -> Option<Self> {
                let text = node.string::<Self>()?;
                if text.is_empty() {
                    node.report_error($message, $help);
                    return None;
                }
                Some(Self(text.to_owned()))
            }
        }
    };
}

/// Declares a list that is stored in another form, or whose entries depend on each other: its name in messages, the
/// type of its entries in the config, and how it is read.
///
/// ```text
/// list_type! {
///     /// The shops, with unique names.
///     pub(super) struct Shops(Vec<Shop>) of Shop as "a list of shops", |node| {
///         node.unique_list::<Shop, ShopName>("name", |name| format!("two shops are named `{name}`"), "rename one")
///     }
/// }
/// ```
macro_rules! list_type {
    (
        $(#[$attribute:meta])*
        $vis:vis struct $name:ident($value:ty) of $item:ty as $type_name:literal, |$node:ident| $read:expr
    ) => {
        $(#[$attribute])*
        #[derive(Default)]
        $vis struct $name($vis $value);

        impl $crate::reader::FromNode for $name {
            const TYPE_NAME: &'static str = $type_name;

            fn example() -> String {
                format!("[{}]", <$item as $crate::reader::FromNode>::example())
            }

            fn schema() -> $crate::reader::Schema {
                $crate::reader::Schema::list(<$item as $crate::reader::FromNode>::schema())
            }

            fn from_node($node: &$crate::reader::Node<'_>) -> Option<Self> {
                $read.map(Self)
            }
        }
    };
}

pub(super) use {
    checked_text, field_default, field_value, from_text, list_type, named_enum, non_empty, one_line, read_key, table,
    written_as,
};
