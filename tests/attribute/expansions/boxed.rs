/// What `#[async_trait]` makes of `async fn ship(&self, id: u64) -> Result<(), ApiError>`.
fn ship<'life0, 'async_trait>(
    &'life0 self,
    id: u64,
) -> ::core::pin::Pin<
    Box<dyn ::core::future::Future<Output = Result<(), ApiError>> + Send + 'async_trait>,
>
where
    'life0: 'async_trait,
    Self: 'async_trait,
{
    Box::pin(async move {
        const _: () = ::zklock::__private::check_pattern("{self.tenant}/{id}");
        let __zklock_call = ::zklock::__private::Call::new(
            {
                static __ZKLOCK_PATTERN: ::zklock::__private::StaticPattern = ::zklock::__private::StaticPattern::new(
                    "{self.tenant}/{id}",
                );
                ::zklock::__private::Name::of(&__ZKLOCK_PATTERN)
                    .value(&self.tenant)
                    .text("/")
                    .value(&id)
            }
                .build(),
        );
        let (__zklock_body, __zklock_output) = ::zklock::__private::Output::of(async move {
            if false {
                return ::zklock::__private::never::<Result<(), ApiError>>();
            }
            let _ = &self;
            let _ = &id;
            ({
                if let Some(__ret) = None::<Result<(), ApiError>> {
                    return __ret;
                }
                let __self = self;
                let id = id;
                let _ = &id;
                let __ret: Result<(), ApiError> = { __self.carrier.ship(id).await };
                __ret
            })
        });
        let __zklock_keep = {
            use ::zklock::__private::Choose as _;
            (&&&__zklock_output).zklock_keep()
        };
        let __zklock_body = ::zklock::__private::std::pin::pin!(__zklock_body);
        let __zklock_result = ::zklock::__private::run(
                __zklock_call,
                ::zklock::__private::pointer(
                    <Result<
                        (),
                        ApiError,
                    > as ::zklock::__private::FromLockError>::from_lock_error,
                ),
                __zklock_keep,
                __zklock_body,
            )
            .await;
        __zklock_result
    })
}
