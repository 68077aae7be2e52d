async fn create_order(request: Request) -> Result<Order, ApiError> {
    const _: () = ::zklock::__private::check_pattern("orders/{request.user.id}");
    let __zklock_call = if ::zklock::__private::condition(request.user.id != GUEST) {
        ::zklock::__private::Call::new(
            {
                static __ZKLOCK_PATTERN: ::zklock::__private::StaticPattern = ::zklock::__private::StaticPattern::new(
                    "orders/{request.user.id}",
                );
                ::zklock::__private::Name::of(&__ZKLOCK_PATTERN)
                    .text("orders/")
                    .value(&request.user.id)
            }
                .build(),
        )
    } else {
        ::zklock::__private::Call::without()
    };
    let (__zklock_body, __zklock_output) = ::zklock::__private::Output::of(async move {
        if false {
            return ::zklock::__private::never::<Result<Order, ApiError>>();
        }
        let request = request;
        let _ = &request;
        ({ store(&request).await })
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
                    Order,
                    ApiError,
                > as ::zklock::__private::FromLockError>::from_lock_error,
            ),
            __zklock_keep,
            __zklock_body,
        )
        .await;
    __zklock_result
}
