//! The cases, by topic.

mod containers;
mod links;
mod multi;
mod nodes;
mod sequence;
mod sessions;
mod watches;

pub use containers::*;
pub use links::*;
pub use multi::*;
pub use nodes::*;
pub use sequence::*;
pub use sessions::*;
pub use watches::*;

/// Hands the names of all cases to a macro.
#[doc(hidden)]
#[macro_export]
macro_rules! conformance_cases {
    ([$($callback:tt)*] [$($extra:tt)*]) => {
        $($callback)*! { [$($extra)*]
            nodes_keep_data_and_stat
            a_node_says_when_it_was_created_and_written
            errors_say_what_is_wrong
            only_direct_children_are_listed
            bad_paths_are_refused
            a_request_that_is_too_large_harms_nothing
            ephemeral_nodes_name_their_owner
            requests_are_applied_in_the_order_of_the_calls
            a_dropped_reply_takes_nothing_back
            sequence_numbers_have_ten_digits_and_count_all_creates
            a_failed_create_takes_no_number
            an_empty_container_goes_and_its_numbers_begin_again
            a_multi_applies_everything
            a_multi_that_fails_applies_nothing_and_tells_where
            a_multi_replaces_only_the_data_that_it_knows
            a_multi_of_checks_finds_a_missing_node
            a_multi_sees_its_own_changes
            an_empty_multi_is_refused
            a_data_watch_fires_once_and_tells_delete_from_change
            a_data_watch_ignores_children
            a_watch_on_a_missing_node_leaves_nothing
            a_children_watch_sees_who_comes_and_goes
            a_watch_comes_before_what_it_announces
            all_watches_of_a_node_fire
            an_expired_session_ends_for_everybody
            a_closed_session_ends_for_everybody
            requests_sent_before_a_close_are_answered
            a_close_that_the_server_cannot_be_told_of_takes_its_time
            a_dropped_session_is_closed
            requests_made_while_down_wait
            a_lost_connection_is_known_when_it_is_back
            requests_in_flight_are_lost_with_the_connection
            watches_survive_a_reconnect
            a_session_expired_while_down_is_learnt_on_reconnect
        }
    };
}
