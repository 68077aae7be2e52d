async fn create_order(request: Request) -> Status {
    const _: () = ::zklock::__private::check_pattern("orders/create");
    let __zklock_call = ::zklock::__private::Call::new({
        static __ZKLOCK_NAME: ::zklock::__private::Literal = ::zklock::__private::Literal::new(
            "orders/create",
        );
        __ZKLOCK_NAME.name()
    });
    let (__zklock_body, __zklock_output) = ::zklock::__private::Output::of(async move {
        if false {
            return ::zklock::__private::never::<Status>();
        }
        let request = request;
        ({ Status::of(store(&request).await) })
    });
    let __zklock_keep = {
        use ::zklock::__private::Choose as _;
        (&&&__zklock_output).zklock_keep()
    };
    let __zklock_body = ::zklock::__private::std::pin::pin!(__zklock_body);
    let __zklock_result = ::zklock::__private::run(
            __zklock_call,
            |error| Status::of_lock(error),
            __zklock_keep,
            __zklock_body,
        )
        .await;
    __zklock_result
}
