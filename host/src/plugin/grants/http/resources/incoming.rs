//! Answers of servers; and requests to a provider, of which there are none.

use wasmtime::component::Resource;
use wasmtime_wasi::p2::{DynInputStream, DynPollable};
use wasmtime_wasi_http::FieldMap;
use wasmtime_wasi_http::p2::bindings::http::types::{self, ErrorCode, Method, Scheme, StatusCode};
use wasmtime_wasi_http::p2::body::{HostFutureTrailers, HostIncomingBody};
use wasmtime_wasi_http::p2::types::{HostFutureIncomingResponse, HostIncomingRequest, HostIncomingResponse};

use super::{HttpView, RESOURCE, pass_on, size};

type Answered<T> = wasmtime::Result<Option<Result<Result<T, ErrorCode>, ()>>>;

impl HttpView<'_> {
    /// Has headers of an answer count.
    fn receive(&mut self, headers: Resource<FieldMap>) -> wasmtime::Result<Resource<FieldMap>> {
        let size = size(self.wasi.table.get(&headers)?).saturating_add(RESOURCE);
        self.charge(&headers, size)?;
        Ok(headers)
    }
}

impl types::HostFutureIncomingResponse for HttpView<'_> {
    fn get(&mut self, answer: Resource<HostFutureIncomingResponse>) -> Answered<Resource<HostIncomingResponse>> {
        let given = types::HostFutureIncomingResponse::get(&mut self.wasi, Resource::new_borrow(answer.rep()))?;
        match &given {
            Some(Ok(Ok(response))) => {
                // From now on the response has what the exchange needs.
                self.charge(&answer, RESOURCE)?;
                let headers = size(&self.wasi.table.get(response)?.headers);
                self.charge(response, headers.saturating_add(self.held.exchange()))?;
            }
            Some(_) => self.charge(&answer, RESOURCE)?,
            None => {}
        }
        Ok(given)
    }

    fn drop(&mut self, answer: Resource<HostFutureIncomingResponse>) -> wasmtime::Result<()> {
        self.release(&answer);
        types::HostFutureIncomingResponse::drop(&mut self.wasi, answer)
    }

    pass_on! { types::HostFutureIncomingResponse:
        fn subscribe(answer: Resource<HostFutureIncomingResponse>) -> wasmtime::Result<Resource<DynPollable>>;
    }
}

impl types::HostIncomingResponse for HttpView<'_> {
    fn headers(&mut self, response: Resource<HostIncomingResponse>) -> wasmtime::Result<Resource<FieldMap>> {
        let headers = types::HostIncomingResponse::headers(&mut self.wasi, response)?;
        self.receive(headers)
    }

    fn consume(
        &mut self,
        response: Resource<HostIncomingResponse>,
    ) -> wasmtime::Result<Result<Resource<HostIncomingBody>, ()>> {
        let same = Resource::new_borrow(response.rep());
        let consumed = types::HostIncomingResponse::consume(&mut self.wasi, same)?;
        if let Ok(body) = &consumed {
            // The exchange goes on for the body.
            let exchange = self.held.exchange();
            self.charge(&response, self.charged(&response).saturating_sub(exchange))?;
            self.charge(body, exchange)?;
        }
        Ok(consumed)
    }

    fn drop(&mut self, response: Resource<HostIncomingResponse>) -> wasmtime::Result<()> {
        self.release(&response);
        types::HostIncomingResponse::drop(&mut self.wasi, response)
    }

    pass_on! { types::HostIncomingResponse:
        fn status(response: Resource<HostIncomingResponse>) -> wasmtime::Result<StatusCode>;
    }
}

impl types::HostIncomingBody for HttpView<'_> {
    fn finish(&mut self, body: Resource<HostIncomingBody>) -> wasmtime::Result<Resource<HostFutureTrailers>> {
        let reservation = self.release(&body);
        let trailers = types::HostIncomingBody::finish(&mut self.wasi, body)?;
        if let Some(reservation) = reservation {
            self.hold(&trailers, reservation);
        }
        Ok(trailers)
    }

    fn drop(&mut self, body: Resource<HostIncomingBody>) -> wasmtime::Result<()> {
        self.release(&body);
        types::HostIncomingBody::drop(&mut self.wasi, body)
    }

    pass_on! { types::HostIncomingBody:
        fn stream(body: Resource<HostIncomingBody>) -> wasmtime::Result<Result<Resource<DynInputStream>, ()>>;
    }
}

impl types::HostFutureTrailers for HttpView<'_> {
    fn get(&mut self, trailers: Resource<HostFutureTrailers>) -> Answered<Option<Resource<FieldMap>>> {
        let given = types::HostFutureTrailers::get(&mut self.wasi, trailers)?;
        if let Some(Ok(Ok(Some(fields)))) = &given {
            self.receive(Resource::new_borrow(fields.rep()))?;
        }
        Ok(given)
    }

    fn drop(&mut self, trailers: Resource<HostFutureTrailers>) -> wasmtime::Result<()> {
        self.release(&trailers);
        types::HostFutureTrailers::drop(&mut self.wasi, trailers)
    }

    pass_on! { types::HostFutureTrailers:
        fn subscribe(trailers: Resource<HostFutureTrailers>) -> wasmtime::Result<Resource<DynPollable>>;
    }
}

impl types::HostIncomingRequest for HttpView<'_> {
    pass_on! { types::HostIncomingRequest:
        fn method(request: Resource<HostIncomingRequest>) -> wasmtime::Result<Method>;
        fn path_with_query(request: Resource<HostIncomingRequest>) -> wasmtime::Result<Option<String>>;
        fn scheme(request: Resource<HostIncomingRequest>) -> wasmtime::Result<Option<Scheme>>;
        fn authority(request: Resource<HostIncomingRequest>) -> wasmtime::Result<Option<String>>;
        fn headers(request: Resource<HostIncomingRequest>) -> wasmtime::Result<Resource<FieldMap>>;
        fn consume(request: Resource<HostIncomingRequest>) -> wasmtime::Result<Result<Resource<HostIncomingBody>, ()>>;
        fn drop(request: Resource<HostIncomingRequest>) -> wasmtime::Result<()>;
    }
}
