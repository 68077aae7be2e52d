//! The options that there are, and the words that people of other libraries try first.

use crate::suggest;

/// The options, each with an example.
const OPTIONS: &[(&str, &str)] = &[
    ("key", "key = request.customer"),
    ("mode", "mode = read"),
    ("namespace", "namespace = \"billing\""),
    ("timeout", "timeout = \"2s\""),
    ("retries", "retries = 2"),
    ("try_once", "try_once"),
    ("on_busy", "on_busy = skip"),
    ("on_error", "on_error = into_response"),
    ("map_err", "map_err = ApiError::Lock"),
    ("on_lost", "on_lost = finish"),
    ("on_revoked", "on_revoked = cancel"),
    ("stop_at", "stop_at = suspect"),
    ("condition", "condition = amount > 0"),
    ("reentrant", "reentrant = false"),
    ("fair", "fair"),
    ("linger", "linger = \"5s\""),
    ("hold_at_least", "hold_at_least = \"30s\""),
    ("hold_at_most", "hold_at_most = \"10m\""),
    ("lock_delay", "lock_delay = \"15s\""),
    ("warn_waiting", "warn_waiting = \"15s\""),
    ("warn_holding", "warn_holding = \"1m\""),
    ("label", "label = \"request {id}\""),
    ("options", "options = LockOptions::new().fair(true)"),
    ("session", "session = \"orders\""),
    ("driver", "driver = zklock::layout::Kazoo::default()"),
    ("crate", "crate = ::zklock"),
];

/// The options that may stand without a value.
const FLAGS: &[&str] = &["try_once", "reentrant", "fair"];

/// The options that may stand more than once.
const REPEATABLE: &[&str] = &["key"];

/// What the same is called elsewhere (ShedLock, Lock4j, Redisson, Klock), and what it is here.
const FOREIGN: &[(&str, &[&str])] = &[
    (
        "here it is `timeout`",
        &["acquire_timeout", "wait", "wait_time", "wait_timeout", "lock_timeout"],
    ),
    ("here it is `retries`", &["attempts", "max_attempts", "max_retries", "retry_count", "tries"]),
    ("here it is `try_once`", &["no_wait", "nowait", "once", "try_acquire", "try_lock"]),
    ("here it is `on_busy = skip`", &["skip", "skip_if_locked"]),
    (
        "here it is `on_busy`",
        &["fail_strategy", "fallback", "fallback_method", "if_busy", "on_locked"],
    ),
    ("here it is `on_error`", &["error_handler", "on_failure", "on_unavailable"]),
    ("here it is `on_revoked = cancel`", &["revocable", "revoke", "cancel_on_revoke"]),
    ("here it is `stop_at = suspect`", &["error_policy", "on_suspended", "stop_at_suspect"]),
    ("here it is `condition`", &["if", "unless", "when"]),
    ("here it is `map_err`", &["error_into", "into_error", "map_error", "with_error"]),
    ("here it is `label`", &["description", "note", "purpose", "reason", "tag"]),
    ("here it is `lock_delay`", &["cool_down", "cooldown", "delay", "rest"]),
    ("here it is `options`", &["config", "defaults", "lock_options", "settings", "with_options"]),
    ("here it is `hold_at_least`", &["at_least", "lock_at_least_for", "min_hold", "minimum_hold"]),
    (
        "here it is `session`",
        &["client", "executor", "lock_provider", "provider", "store", "store_id"],
    ),
    ("here it is `driver`", &["layout", "lock_driver", "recipe"]),
    ("here it is `mode = semaphore(…)`", &["limit", "max_concurrency", "permits", "semaphore"]),
    ("here it is `mode`", &["kind", "lock_mode", "lock_type", "type"]),
    ("here it is `mode = read`", &["read", "shared"]),
    ("here it is `mode = write`", &["write"]),
    ("several locks are a `key = …` for each", &["and", "also", "key2", "keys"]),
    ("here it is `namespace`", &["base_path", "prefix", "root"]),
    (
        "here it is `hold_at_most`, which ends the function; no time frees a lock while its holder \
         lives. After a crash it is free within the session timeout and two ticks",
        &["at_most", "expiration", "expire", "lease", "lease_time", "lock_at_most_for", "ttl"],
    ),
];

/// What a lock's name is called where it is an option.
const NAMES: &[&str] = &["lock", "lock_name", "lock_path", "name", "path", "value"];

/// The options that there are.
pub(crate) fn names() -> Vec<&'static str> {
    OPTIONS.iter().map(|(option, _)| *option).collect()
}

/// Says whether there is an option of that name.
pub(crate) fn is_known(word: &str) -> bool {
    OPTIONS.iter().any(|(option, _)| *option == word)
}

/// Says whether somebody who writes the word means the lock's name.
pub(crate) fn is_name(word: &str) -> bool {
    NAMES.contains(&snake(word).as_str())
}

/// Says whether the option may stand without a value.
pub(crate) fn is_flag(word: &str) -> bool {
    FLAGS.contains(&word)
}

/// Says whether the option may stand more than once.
pub(crate) fn is_repeatable(word: &str) -> bool {
    REPEATABLE.contains(&word)
}

/// How an option is written.
pub(crate) fn usage(option: &str) -> String {
    let example = OPTIONS.iter().find(|(known, _)| *known == option).map(|(_, example)| *example);
    format!("`{option}` needs a value: `{}`", example.unwrap_or_default())
}

/// The message for a word that is not an option.
pub(crate) fn unknown(word: &str) -> String {
    let names = names();
    match (foreign(word), suggest::closest(word, &names)) {
        (Some(advice), _) => format!("unknown option `{word}`; {advice}"),
        (None, Some(guess)) => format!("unknown option `{word}`; did you mean `{guess}`?"),
        (None, None) => {
            format!("unknown option `{word}`; the options are {}", suggest::list(&names))
        }
    }
}

fn foreign(word: &str) -> Option<&'static str> {
    let word = snake(word);
    FOREIGN.iter().find(|(_, words)| words.contains(&word.as_str())).map(|(advice, _)| *advice)
}

/// `waitTime` as `wait_time`.
fn snake(word: &str) -> String {
    let mut text = String::new();
    for (at, c) in word.chars().enumerate() {
        if c.is_uppercase() && at > 0 && !text.ends_with('_') {
            text.push('_');
        }
        text.extend(c.to_lowercase());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_other_libraries_are_translated() {
        assert_eq!(unknown("waitTime"), "unknown option `waitTime`; here it is `timeout`");
        assert!(unknown("lockAtMostFor").contains("no time frees a lock while its holder lives"));
        assert!(unknown("failStrategy").contains("here it is `on_busy`"));
    }

    #[test]
    fn a_foreign_word_is_no_option() {
        for word in FOREIGN.iter().flat_map(|(_, words)| words.iter()).chain(NAMES) {
            assert!(!is_known(word), "{word}");
            assert_eq!(*word, snake(word));
        }
    }

    #[test]
    fn a_name_is_recognised_in_other_dresses() {
        for word in ["name", "lock", "lockName", "lock_name", "lockPath", "path", "value"] {
            assert!(is_name(word), "{word}");
        }
        assert!(!is_name("lock_delay") && !is_name("lock_timeout"));
    }

    #[test]
    fn every_special_option_is_an_option() {
        assert!(FLAGS.iter().chain(REPEATABLE).all(|option| is_known(option)));
    }
}
