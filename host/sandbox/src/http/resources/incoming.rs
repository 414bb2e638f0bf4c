//! Responses of servers. Requests to a provider do not exist.

use wasmtime::component::Resource;
use wasmtime_wasi::p2::{DynInputStream, DynPollable};
use wasmtime_wasi_http::FieldMap;
use wasmtime_wasi_http::p2::bindings::http::types::{self, ErrorCode, Method, Scheme, StatusCode};
use wasmtime_wasi_http::p2::body::{HostFutureTrailers, HostIncomingBody};
use wasmtime_wasi_http::p2::types::{HostFutureIncomingResponse, HostIncomingRequest, HostIncomingResponse};

use super::{HttpView, RESOURCE_COST, delegate, fields_cost};

type FutureOutput<T> = wasmtime::Result<Option<Result<Result<T, ErrorCode>, ()>>>;

impl HttpView<'_> {
    /// Charges the headers of a response.
    fn charge_response_headers(&mut self, headers: Resource<FieldMap>) -> wasmtime::Result<Resource<FieldMap>> {
        let size = fields_cost(self.wasi.table.get(&headers)?).saturating_add(RESOURCE_COST);
        self.charge(&headers, size)?;
        Ok(headers)
    }
}

impl types::HostFutureIncomingResponse for HttpView<'_> {
    fn get(&mut self, answer: Resource<HostFutureIncomingResponse>) -> FutureOutput<Resource<HostIncomingResponse>> {
        let given = types::HostFutureIncomingResponse::get(&mut self.wasi, Resource::new_borrow(answer.rep()))?;
        match &given {
            Some(Ok(Ok(response))) => {
                // From now on, the exchange is charged to the response.
                self.charge(&answer, RESOURCE_COST)?;
                let headers = fields_cost(&self.wasi.table.get(response)?.headers);
                self.charge(response, headers.saturating_add(self.reservations.exchange_cost()))?;
            }
            Some(_) => self.charge(&answer, RESOURCE_COST)?,
            None => {}
        }
        Ok(given)
    }

    fn drop(&mut self, answer: Resource<HostFutureIncomingResponse>) -> wasmtime::Result<()> {
        self.take_reservation(&answer);
        types::HostFutureIncomingResponse::drop(&mut self.wasi, answer)
    }

    delegate! { types::HostFutureIncomingResponse:
        fn subscribe(answer: Resource<HostFutureIncomingResponse>) -> wasmtime::Result<Resource<DynPollable>>;
    }
}

impl types::HostIncomingResponse for HttpView<'_> {
    fn headers(&mut self, response: Resource<HostIncomingResponse>) -> wasmtime::Result<Resource<FieldMap>> {
        let headers = types::HostIncomingResponse::headers(&mut self.wasi, response)?;
        self.charge_response_headers(headers)
    }

    fn consume(
        &mut self,
        response: Resource<HostIncomingResponse>,
    ) -> wasmtime::Result<Result<Resource<HostIncomingBody>, ()>> {
        let same = Resource::new_borrow(response.rep());
        let consumed = types::HostIncomingResponse::consume(&mut self.wasi, same)?;
        if let Ok(body) = &consumed {
            // The exchange continues for the body.
            let exchange = self.reservations.exchange_cost();
            self.charge(&response, self.charged_bytes(&response).saturating_sub(exchange))?;
            self.charge(body, exchange)?;
        }
        Ok(consumed)
    }

    fn drop(&mut self, response: Resource<HostIncomingResponse>) -> wasmtime::Result<()> {
        self.take_reservation(&response);
        types::HostIncomingResponse::drop(&mut self.wasi, response)
    }

    delegate! { types::HostIncomingResponse:
        fn status(response: Resource<HostIncomingResponse>) -> wasmtime::Result<StatusCode>;
    }
}

impl types::HostIncomingBody for HttpView<'_> {
    fn finish(&mut self, body: Resource<HostIncomingBody>) -> wasmtime::Result<Resource<HostFutureTrailers>> {
        let reservation = self.take_reservation(&body);
        let trailers = types::HostIncomingBody::finish(&mut self.wasi, body)?;
        if let Some(reservation) = reservation {
            self.attach_reservation(&trailers, reservation);
        }
        Ok(trailers)
    }

    fn drop(&mut self, body: Resource<HostIncomingBody>) -> wasmtime::Result<()> {
        self.take_reservation(&body);
        types::HostIncomingBody::drop(&mut self.wasi, body)
    }

    delegate! { types::HostIncomingBody:
        fn stream(body: Resource<HostIncomingBody>) -> wasmtime::Result<Result<Resource<DynInputStream>, ()>>;
    }
}

impl types::HostFutureTrailers for HttpView<'_> {
    fn get(&mut self, trailers: Resource<HostFutureTrailers>) -> FutureOutput<Option<Resource<FieldMap>>> {
        let given = types::HostFutureTrailers::get(&mut self.wasi, trailers)?;
        if let Some(Ok(Ok(Some(fields)))) = &given {
            self.charge_response_headers(Resource::new_borrow(fields.rep()))?;
        }
        Ok(given)
    }

    fn drop(&mut self, trailers: Resource<HostFutureTrailers>) -> wasmtime::Result<()> {
        self.take_reservation(&trailers);
        types::HostFutureTrailers::drop(&mut self.wasi, trailers)
    }

    delegate! { types::HostFutureTrailers:
        fn subscribe(trailers: Resource<HostFutureTrailers>) -> wasmtime::Result<Resource<DynPollable>>;
    }
}

impl types::HostIncomingRequest for HttpView<'_> {
    delegate! { types::HostIncomingRequest:
        fn method(request: Resource<HostIncomingRequest>) -> wasmtime::Result<Method>;
        fn path_with_query(request: Resource<HostIncomingRequest>) -> wasmtime::Result<Option<String>>;
        fn scheme(request: Resource<HostIncomingRequest>) -> wasmtime::Result<Option<Scheme>>;
        fn authority(request: Resource<HostIncomingRequest>) -> wasmtime::Result<Option<String>>;
        fn headers(request: Resource<HostIncomingRequest>) -> wasmtime::Result<Resource<FieldMap>>;
        fn consume(request: Resource<HostIncomingRequest>) -> wasmtime::Result<Result<Resource<HostIncomingBody>, ()>>;
        fn drop(request: Resource<HostIncomingRequest>) -> wasmtime::Result<()>;
    }
}
