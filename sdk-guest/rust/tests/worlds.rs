//! Bindings are generated for each world of the published WIT package, from `wit/` alone.

macro_rules! worlds {
    ($($module:ident = $world:literal),* $(,)?) => {
        $(mod $module {
            #![allow(missing_docs, unsafe_code, unreachable_pub, dead_code, clippy::all, clippy::restriction, reason = "generated")]
            wit_bindgen::generate!({ path: "../../wit", world: $world, generate_all });
        })*

        /// The worlds above.
        const WORLDS: &[&str] = &[$($world),*];
    };
}

worlds! {
    provider = "provider",
    provider_all = "provider-all",
    provider_dirs = "provider-dirs",
    provider_env = "provider-env",
    provider_http = "provider-http",
    provider_keyvalue = "provider-keyvalue",
    provider_sql = "provider-sql",
}

#[test]
fn every_world_of_the_contract_has_bindings() {
    let declared = include_str!("../../../wit/worlds.wit").lines().filter_map(|line| line.strip_prefix("world "));
    let mut declared: Vec<_> = declared.map(|world| world.trim_end_matches(" {")).collect();
    declared.sort_unstable();
    assert_eq!(declared, WORLDS);
}
