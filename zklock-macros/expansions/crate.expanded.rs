async fn create_order(request: Request) -> Result<Order, ApiError> {
    const _: () = crate::locking::__private::check_pattern("orders/create");
    let __zklock_name = crate::locking::__private::Name::literal("orders/create");
    let __zklock_call = crate::locking::__private::Call::new("orders/create");
    crate::locking::__private::run(
            __zklock_call,
            __zklock_name,
            <Result<
                Order,
                ApiError,
            > as crate::locking::__private::FromLockError>::from_lock_error,
            async move {
                if false {
                    return crate::locking::__private::never::<Result<Order, ApiError>>();
                }
                let request = request;
                { store(&request).await }
            },
        )
        .await
}
