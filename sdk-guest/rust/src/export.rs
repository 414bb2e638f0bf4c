//! Making a component of a provider.

/// Makes the crate a component that answers with this provider.
///
/// It stands once in a crate of type `cdylib` that is built for `wasm32-wasip2`. For other targets it makes nothing, but
/// checks that the type is a provider, so that the crate builds and tests natively.
#[macro_export]
macro_rules! export {
    ($provider:ty) => {
        #[cfg(target_family = "wasm")]
        const _: () = {
            struct Exported;
            $crate::__instance!(Exported, $provider, $crate::__private::config);
    $crate::__private::bindings::export_component!(Exported with_types_in $crate::__private::bindings);
        };
        #[cfg(not(target_family = "wasm"))]
        const _: fn() -> $crate::Info = <$provider as $crate::Provider>::describe;
    };
}

/// Keeps a provider of this type with this instance, opened when it is first needed.
#[doc(hidden)]
#[macro_export]
macro_rules! __instance {
    ($instance:ident, $provider:ty, $config:expr) => {
        impl $crate::__private::Instance for $instance {
            type Provider = $provider;

            fn with<T>(answer: impl FnOnce(&$provider) -> $crate::Result<T>) -> $crate::Result<T> {
                ::std::thread_local! {
                    static OPENED: ::std::cell::OnceCell<$provider> = const { ::std::cell::OnceCell::new() };
                }
                OPENED.with(|opened| $crate::__private::with(opened, $config, answer))
            }
        }
    };
}
