//! Other attributes beside the attribute.

use std::{future::Future, sync::Arc};

use zklock::{events, zk_locked};

use crate::support::{Locked, acquired, pause, wait};

#[zk_locked("above-{id}")]
#[tracing::instrument(skip(secret))]
async fn above(id: u32, secret: String) -> Locked<usize> {
    pause().await;
    Ok(secret.len())
}

#[tracing::instrument(skip(secret), err, ret)]
#[zk_locked("below-{id}")]
async fn below(id: u32, secret: String) -> Locked<usize> {
    pause().await;
    Ok(secret.len())
}

#[tracing::instrument(skip_all, err)]
#[zk_locked("below_sync-{id}")]
fn below_sync(id: u32, secret: &str) -> Locked<usize> {
    Ok(secret.len())
}

#[zk_locked("above_sync-{id}")]
#[tracing::instrument(skip_all, err)]
fn above_sync(id: u32, secret: &str) -> Locked<usize> {
    Ok(secret.len())
}

/// Something that cannot be recorded.
struct Secret;

#[zk_locked("above_pattern-{id}")]
#[tracing::instrument(skip_all, err)]
async fn above_pattern((id, _): (u32, Secret), _: Secret) -> Locked<u32> {
    pause().await;
    Ok(id)
}

#[tracing::instrument(err)]
#[zk_locked("below_pattern-{id}")]
async fn below_pattern((id, _): (u32, Secret), _: Secret) -> Locked<u32> {
    pause().await;
    Ok(id)
}

#[zk_locked("whole_pattern-{id}")]
#[tracing::instrument]
fn whole_pattern((id, other): (u32, u32), &[first, ..]: &[u32; 9], mut last: u32) -> Locked<u32> {
    last += id + other + first;
    Ok(last)
}

#[test]
fn instrument_records_what_a_pattern_binds() {
    assert_eq!(wait(above_pattern((1, Secret), Secret)).unwrap(), 1);
    assert_eq!(wait(below_pattern((2, Secret), Secret)).unwrap(), 2);
    assert_eq!(whole_pattern((3, 4), &[5; 9], 6).unwrap(), 18);
    assert_eq!(acquired(), ["above_pattern-1", "below_pattern-2", "whole_pattern-3"]);
}

/// Parameters that only the name reads, in every kind of function and below and above what
/// `#[instrument]` makes of it. Warnings are errors here.
macro_rules! only_the_name_reads {
    ($module:ident, $($instrument:tt)*) => {
        mod $module {
            use crate::support::{Locked, pause};
            use zklock::zk_locked;

            #[zk_locked("above-{id}")]
            #[tracing::instrument($($instrument)*)]
            pub(super) async fn above(id: u32) -> Locked<()> {
                pause().await;
                Ok(())
            }

            #[tracing::instrument($($instrument)*)]
            #[zk_locked("below-{id}")]
            pub(super) async fn below(id: u32) -> Locked<()> {
                pause().await;
                Ok(())
            }

            #[zk_locked("plain-above-{id}")]
            #[tracing::instrument($($instrument)*)]
            pub(super) fn plain_above(id: u32) -> Locked<()> {
                Ok(())
            }

            #[tracing::instrument($($instrument)*)]
            #[zk_locked("plain-below-{id}")]
            pub(super) fn plain_below(id: u32) -> Locked<()> {
                Ok(())
            }

            #[zk_locked("future-above-{id}")]
            #[tracing::instrument($($instrument)*)]
            pub(super) fn future_above(id: u32) -> impl std::future::Future<Output = Locked<()>> {
                async move {
                    pause().await;
                    Ok(())
                }
            }

            #[tracing::instrument($($instrument)*)]
            #[zk_locked("future-below-{id}")]
            pub(super) fn future_below(id: u32) -> impl std::future::Future<Output = Locked<()>> {
                async move {
                    pause().await;
                    Ok(())
                }
            }

            pub(super) trait Native {
                async fn native_above(&self, id: u32) -> Locked<()>;
                async fn native_below(&self, id: u32) -> Locked<()>;
            }

            impl Native for () {
                #[zk_locked("native-above-{id}")]
                #[tracing::instrument($($instrument)*)]
                async fn native_above(&self, id: u32) -> Locked<()> {
                    pause().await;
                    Ok(())
                }

                #[tracing::instrument($($instrument)*)]
                #[zk_locked("native-below-{id}")]
                async fn native_below(&self, id: u32) -> Locked<()> {
                    pause().await;
                    Ok(())
                }
            }

            #[async_trait::async_trait]
            pub(super) trait Boxed {
                async fn boxed_above(&self, id: u32) -> Locked<()>;
                async fn boxed_below(&self, id: u32, name: &str) -> Locked<()>;
                async fn boxed_pattern(&self, pair: (u32, u32)) -> Locked<()>;

                #[tracing::instrument($($instrument)*)]
                #[zk_locked("boxed-provided-{id}")]
                async fn boxed_provided(&self, id: String) -> Locked<()> {
                    pause().await;
                    Ok(())
                }
            }

            #[async_trait::async_trait]
            impl Boxed for () {
                #[zk_locked("boxed-above-{id}")]
                #[tracing::instrument($($instrument)*)]
                async fn boxed_above(&self, id: u32) -> Locked<()> {
                    pause().await;
                    Ok(())
                }

                #[tracing::instrument($($instrument)*)]
                #[zk_locked("boxed-below-{id}-{name}")]
                async fn boxed_below(&self, id: u32, name: &str) -> Locked<()> {
                    pause().await;
                    Ok(())
                }

                #[tracing::instrument($($instrument)*)]
                #[zk_locked("boxed-pattern-{id}", key = other)]
                async fn boxed_pattern(&self, (id, other): (u32, u32)) -> Locked<()> {
                    pause().await;
                    Ok(())
                }
            }

            pub(super) async fn all() -> Locked<()> {
                above(1).await?;
                below(1).await?;
                plain_above(1)?;
                plain_below(1)?;
                future_above(1).await?;
                future_below(1).await?;
                ().native_above(1).await?;
                ().native_below(1).await?;
                ().boxed_above(1).await?;
                ().boxed_below(1, "n").await?;
                ().boxed_pattern((1, 2)).await?;
                ().boxed_provided("1".to_owned()).await
            }
        }
    };
}

only_the_name_reads!(skips, skip_all);
only_the_name_reads!(skips_and_tells_errors, skip_all, err);
only_the_name_reads!(skips_and_tells_results, skip_all, ret);
only_the_name_reads!(skips_and_tells_both, skip_all, err, ret);

#[test]
fn a_parameter_that_only_the_name_reads_is_used_whatever_is_skipped() {
    let expected = [
        "above-1",
        "below-1",
        "plain-above-1",
        "plain-below-1",
        "future-above-1",
        "future-below-1",
        "native-above-1",
        "native-below-1",
        "boxed-above-1",
        "boxed-below-1-n",
        "boxed-pattern-1/2",
        "boxed-provided-1",
    ];
    let all: [fn() -> Locked<()>; 4] = [
        || wait(skips::all()),
        || wait(skips_and_tells_errors::all()),
        || wait(skips_and_tells_results::all()),
        || wait(skips_and_tells_both::all()),
    ];
    for run in all {
        assert_eq!(run().unwrap(), ());
        assert_eq!(acquired(), expected);
    }
}

struct Shop;

#[async_trait::async_trait]
trait Instrumented {
    async fn above(&self, id: u32) -> Locked<usize>;
    async fn below(&self, id: u32) -> Locked<usize>;
    async fn pattern(&self, pair: (u32, String)) -> Locked<usize>;
}

#[async_trait::async_trait]
impl Instrumented for Shop {
    /// Only the name reads what is bound, which is not used otherwise.
    #[zk_locked("trait pattern-{id}")]
    async fn pattern(&self, (id, _): (u32, String)) -> Locked<usize> {
        pause().await;
        events::record("ran");
        Ok(1)
    }

    /// Only the name reads the parameter.
    #[zk_locked("trait above-{id}")]
    #[tracing::instrument(skip_all, err)]
    async fn above(&self, id: u32) -> Locked<usize> {
        pause().await;
        events::record("ran");
        Ok(1)
    }

    #[tracing::instrument(skip_all, err)]
    #[zk_locked("trait below-{id}")]
    async fn below(&self, id: u32) -> Locked<usize> {
        pause().await;
        events::record("ran");
        Ok(id as usize)
    }
}

#[test]
fn instrument_works_on_either_side_of_async_trait_methods_too() {
    let shop: &dyn Instrumented = &Shop;
    for (name, call) in [
        ("above", shop.above(1)),
        ("below", shop.below(1)),
        ("pattern", shop.pattern((1, String::new()))),
    ] {
        assert_eq!(wait(call).unwrap(), 1);
        let acquire = format!("acquire trait {name}-1");
        assert_eq!(events::take(), ["wait", &acquire, "ran", "release"]);
    }
}

/// As `axum::Handler` asks for it: any async function, its future `Send` and without borrows.
fn assert_handler<A, B, T, F>(_: impl Fn(A, B) -> F + Clone + Send + Sync + 'static)
where
    F: Future<Output = Locked<T>> + Send + 'static,
{
}

struct State<T>(T);
struct Json<T>(T);

#[zk_locked("orders/{id}")]
async fn handler(State(pool): State<Arc<str>>, Json(id): Json<u64>) -> Locked<Json<u64>> {
    pause().await;
    Ok(Json(id + u64::from(pool.is_empty())))
}

#[test]
fn a_guarded_function_is_a_handler() {
    assert_handler(handler);
    assert_eq!(wait(handler(State("".into()), Json(6))).map(|Json(id)| id).unwrap(), 7);
    assert_eq!(acquired(), ["orders/6"]);
}

#[test]
fn instrument_works_on_either_side() {
    assert_eq!(wait(above(1, "abc".to_owned())).unwrap(), 3);
    assert_eq!(wait(below(2, "abc".to_owned())).unwrap(), 3);
    assert_eq!(above_sync(3, "abc").unwrap(), 3);
    assert_eq!(below_sync(4, "abc").unwrap(), 3);
    assert_eq!(acquired(), ["above-1", "below-2", "above_sync-3", "below_sync-4"]);
}

#[zk_locked("tokio test")]
#[tokio::test]
async fn a_tokio_test_below_is_guarded() -> Locked<()> {
    pause().await;
    assert_eq!(acquired(), ["tokio test"]);
    Ok(())
}

#[test]
#[zk_locked("test")]
fn a_test_above_is_guarded() -> Locked<()> {
    assert_eq!(acquired(), ["test"]);
    Ok(())
}

#[zk_locked("test")]
#[test]
fn a_test_below_is_guarded() -> Locked<()> {
    assert_eq!(acquired(), ["test"]);
    Ok(())
}

#[zk_locked("main")]
#[tokio::main(flavor = "current_thread")]
async fn tokio_main() -> Locked<u32> {
    pause().await;
    Ok(1)
}

#[test]
fn a_tokio_main_below_is_guarded() {
    assert_eq!(tokio_main().unwrap(), 1);
    assert_eq!(acquired(), ["main"]);
}

/// Of two attributes that exclude each other one is there.
#[cfg_attr(all(), zk_locked("alternative-{n}"))]
#[cfg_attr(any(), zk_locked("other-{n}"))]
async fn alternative(n: u32) -> Locked<u32> {
    pause().await;
    Ok(n)
}

#[test]
fn one_of_two_attributes_may_be_there() {
    assert_eq!(wait(alternative(1)).unwrap(), 1);
    assert_eq!(acquired(), ["alternative-1"]);
}
