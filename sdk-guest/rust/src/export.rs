//! The macro that turns a provider into a component.

/// Exports a provider as the component's implementation of the contract.
///
/// Invoke it once, in a crate of type `cdylib` that is built for `wasm32-wasip2`. On other targets it exports nothing,
/// but checks that the type is a provider, so that the crate builds and its tests run natively.
///
/// `export!(Type, prepare)` exports [`Prepare`](crate::Prepare), too.
#[macro_export]
macro_rules! export {
    ($provider:ty, prepare) => {
        $crate::export!($provider);
        #[cfg(target_family = "wasm")]
        const _: () = {
            struct Prepared;
            $crate::__instance!(Prepared, $provider, $crate::__private::config);
            $crate::__private::prepare_bindings::export_prepare!(
                Prepared with_types_in $crate::__private::prepare_bindings
            );
        };
        #[cfg(not(target_family = "wasm"))]
        const _: fn(&$provider, Option<&str>) -> $crate::Result<$crate::Progress> =
            <$provider as $crate::Prepare>::prepare;
    };
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

/// Implements [`Instance`](crate::__private::Instance) for a type, with a provider that is opened on first use.
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
