::core::compile_error! {
    "timeout needs a unit: write it like \"2s\", \"500ms\" or \"1m 30s\""
}
::core::compile_error! {
    "unknown option `retry`; did you mean `retries`?"
}
::core::compile_error! {
    "`{id}` names no parameter (the parameters are `request`)"
}
#[allow(unused_variables)]
async fn create_order(request: Request) -> Result<Order, ApiError> {
    store(&request).await
}
