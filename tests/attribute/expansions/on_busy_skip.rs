async fn nightly_report() {
    const _: () = ::zklock::__private::check_pattern("reports/nightly");
    let __zklock_call = ::zklock::__private::Call::new({
            static __ZKLOCK_NAME: ::zklock::__private::Literal = ::zklock::__private::Literal::new(
                "reports/nightly",
            );
            __ZKLOCK_NAME.name()
        })
        .try_once(true);
    let (__zklock_body, __zklock_output) = ::zklock::__private::Output::of(async move {
        if false {
            return ::zklock::__private::never::<()>();
        }
        ({
            write_report().await;
        })
    });
    let __zklock_keep = {
        use ::zklock::__private::Choose as _;
        (&&&__zklock_output).zklock_keep()
    };
    let __zklock_body = ::zklock::__private::std::pin::pin!(__zklock_body);
    let __zklock_result = ::zklock::__private::run(
            __zklock_call,
            ::zklock::__private::busy_or::<
                (),
                _,
                _,
            >(
                ::zklock::__private::pointer(<() as ::zklock::__private::Skip>::skip),
                ::zklock::__private::pointer(<() as ::zklock::__private::Skip>::fail),
            ),
            __zklock_keep,
            __zklock_body,
        )
        .await;
    __zklock_result
}
