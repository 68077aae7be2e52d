async fn create_order(request: Request) -> Result<Order, ApiError> {
    const _: () = ::zklock::__private::check_pattern("orders/create");
    let __zklock_call = ::zklock::__private::Call::new({
            static __ZKLOCK_NAME: ::zklock::__private::Literal = ::zklock::__private::Literal::new(
                "orders/create",
            );
            __ZKLOCK_NAME.name()
        })
        .options(
            ::zklock::__private::LockOptions::new()
                .warn_waiting(::zklock::__private::std::time::Duration::new(15u64, 0u32))
                .warn_holding(::zklock::__private::std::time::Duration::new(60u64, 0u32)),
        );
    let (__zklock_body, __zklock_output) = ::zklock::__private::Output::of(async move {
        if false {
            return ::zklock::__private::never::<Result<Order, ApiError>>();
        }
        let request = request;
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
