//! Unit tests of the crate's private modules, each in the module's own file. They are in this binary so that the
//! crate is built once: see `rlx_cpu::internals`.

/// A test for each name, of the module it stands behind.
macro_rules! internals {
    ($($(#[$gate:meta])* $module:ident: $($name:ident)*;)*) => {
        $($(#[$gate])* mod $module {
            $(#[test]
            fn $name() {
                rlx_cpu::internals::$module::$name();
            })*
        })*

        /// Every test that a module has is listed here.
        #[cfg(not(miri))]
        #[test]
        fn every_test_of_a_private_module_is_listed() {
            let listed = [$($(#[$gate])* (stringify!($module), [$(stringify!($name)),*].len())),*];
            for (module, n) in listed {
                let source = super::internals::source(module);
                assert_eq!(source.matches("\n    pub fn ").count(), n, "{module}.rs");
            }
        }
    };
}

/// The tests in a module's file.
#[cfg(not(miri))]
fn source(module: &str) -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/");
    let places = ["", "kernels/", "kernels/elementwise/"];
    let tests = |place: &&str| {
        let text = std::fs::read_to_string(format!("{folder}{place}{module}.rs")).ok()?;
        Some(text.split_once("pub mod tests {")?.1.to_owned())
    };
    places.iter().find_map(tests).unwrap()
}

internals! {
    aligned_bytes:
        memory_is_zero_and_starts_on_a_cache_line;
    #[cfg(feature = "threads")] dispatch:
        a_team_does_every_share_of_every_step_once
        a_panic_in_a_share_is_an_error_and_the_team_works_on;
    #[cfg(feature = "graphs")] layout:
        runs_are_the_places_of_every_broadcast
        axes_that_run_on_are_one;
    panel:
        panels_hold_every_byte_of_every_type_and_give_it_back;
    #[cfg(feature = "graphs")] product:
        axes_that_run_on_are_a_step_and_others_a_table;
    #[cfg(feature = "threads")] turns:
        every_share_is_handed_out_once_and_steps_do_not_overlap
        who_must_not_wait_is_told_so_and_later_gets_the_next_step
        a_share_that_never_ends_holds_nobody;
    view:
        shares_cover_a_result_once;
}
