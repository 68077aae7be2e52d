fn next_number(last: &mut u64) -> Result<u64, ApiError> {
    const _: () = ::zklock::__private::check_pattern("orders/number");
    let __zklock_name = ::zklock::__private::Name::literal("orders/number");
    let __zklock_call = ::zklock::__private::Call::new("orders/number");
    ::zklock::__private::run_blocking(
        __zklock_call,
        __zklock_name,
        <Result<u64, ApiError> as ::zklock::__private::FromLockError>::from_lock_error,
        move || {
            let last = last;
            ({
                *last += 1;
                Ok(*last)
            })
        },
    )
}
