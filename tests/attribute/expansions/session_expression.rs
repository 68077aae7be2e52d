async fn ship(&self, id: u64) -> Result<(), ApiError> {
    const _: () = ::zklock::__private::check_pattern("orders/{id}");
    let __zklock_call = ::zklock::__private::Call::new(
            {
                static __ZKLOCK_PATTERN: ::zklock::__private::StaticPattern = ::zklock::__private::StaticPattern::new(
                    "orders/{id}",
                );
                ::zklock::__private::Name::of(&__ZKLOCK_PATTERN)
                    .text("orders/")
                    .value(&id)
            }
                .build(),
        )
        .session(&self.session);
    let (__zklock_body, __zklock_output) = ::zklock::__private::Output::of(async move {
        if false {
            return ::zklock::__private::never::<Result<(), ApiError>>();
        }
        let _ = &self;
        let id = id;
        let _ = &id;
        ({ self.carrier.ship(id).await })
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
}
