fn next_number(last: &mut u64) -> Result<u64, ApiError> {
    const _: () = ::zklock::__private::check_pattern("orders/number");
    let __zklock_call = ::zklock::__private::Call::new({
        static __ZKLOCK_NAME: ::zklock::__private::Literal = ::zklock::__private::Literal::new(
            "orders/number",
        );
        __ZKLOCK_NAME.name()
    });
    ::zklock::__private::run_blocking::<
        Result<u64, ApiError>,
        _,
        _,
    >(
        __zklock_call,
        ::zklock::__private::pointer(
            <Result<
                u64,
                ApiError,
            > as ::zklock::__private::FromLockError>::from_lock_error,
        ),
        move || {
            let last = last;
            ({
                *last += 1;
                Ok(*last)
            })
        },
    )
}
