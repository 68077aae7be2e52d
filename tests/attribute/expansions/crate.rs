async fn create_order(request: Request) -> Result<Order, ApiError> {
    const _: () = prelude::zklock::__private::check_pattern("orders/create");
    let __zklock_call = prelude::zklock::__private::Call::new({
        static __ZKLOCK_NAME: prelude::zklock::__private::Literal = prelude::zklock::__private::Literal::new(
            "orders/create",
        );
        __ZKLOCK_NAME.name()
    });
    let (__zklock_body, __zklock_output) = prelude::zklock::__private::Output::of(async move {
        if false {
            return prelude::zklock::__private::never::<Result<Order, ApiError>>();
        }
        let request = request;
        ({ store(&request).await })
    });
    let __zklock_keep = {
        use prelude::zklock::__private::Choose as _;
        (&&&__zklock_output).zklock_keep()
    };
    let __zklock_body = prelude::zklock::__private::std::pin::pin!(__zklock_body);
    let __zklock_result = prelude::zklock::__private::run(
            __zklock_call,
            prelude::zklock::__private::pointer(
                <Result<
                    Order,
                    ApiError,
                > as prelude::zklock::__private::FromLockError>::from_lock_error,
            ),
            __zklock_keep,
            __zklock_body,
        )
        .await;
    __zklock_result
}
