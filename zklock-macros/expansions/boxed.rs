/// What `#[async_trait]` makes of `async fn ship(&self, id: u64) -> Result<(), ApiError>`.
#[zk_locked("{self.tenant}/{id}")]
fn ship<'life0, 'async_trait>(
    &'life0 self,
    id: u64,
) -> ::core::pin::Pin<
    Box<dyn ::core::future::Future<Output = Result<(), ApiError>> + Send + 'async_trait>,
>
where
    'life0: 'async_trait,
    Self: 'async_trait,
{
    Box::pin(async move {
        if let Some(__ret) = None::<Result<(), ApiError>> {
            return __ret;
        }
        let __self = self;
        let id = id;
        let __ret: Result<(), ApiError> = { __self.carrier.ship(id).await };
        __ret
    })
}
