/// Creates an order.
#[must_use]
pub(crate) async fn create<T>(
    mut self,
    Json(order): Json<Order>,
    __zklock_arg2: Pair,
    note: T,
    __zklock_arg4: Permit,
    #[cfg(feature = "audit")]
    _audit: Audit,
) -> Result<impl Iterator<Item = T>, ApiError>
where
    T: Clone,
{
    #![allow(unused)]
    const _: () = ::zklock::__private::check_pattern("{self.tenant}/orders");
    let __zklock_call = ::zklock::__private::Call::new(
        {
            static __ZKLOCK_PATTERN: ::zklock::__private::StaticPattern = ::zklock::__private::StaticPattern::new(
                "{self.tenant}/orders",
            );
            ::zklock::__private::Name::of(&__ZKLOCK_PATTERN)
                .value(&self.tenant)
                .text("/orders")
        }
            .build(),
    );
    let (__zklock_body, __zklock_output) = ::zklock::__private::Output::of(async move {
        if false {
            return ::zklock::__private::never::<Result<_, ApiError>>();
        }
        let _ = &self;
        let order = order;
        let __zklock_arg2 = __zklock_arg2;
        let Pair { left, .. } = __zklock_arg2;
        let mut note = note;
        let __zklock_arg4 = __zklock_arg4;
        #[cfg(feature = "audit")]
        #[allow(clippy::used_underscore_binding, clippy::no_effect_underscore_binding)]
        let _audit = _audit;
        ({
            self.orders.push(order);
            Ok(iter::repeat(note))
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
                    _,
                    ApiError,
                > as ::zklock::__private::FromLockError>::from_lock_error,
            ),
            __zklock_keep,
            __zklock_body,
        )
        .await;
    __zklock_result
}
