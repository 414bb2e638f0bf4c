//! `fields`: headers and trailers.

use wasmtime::component::Resource;
use wasmtime_wasi_http::FieldMap;
use wasmtime_wasi_http::p2::bindings::http::types::{self, HostFields};
use wasmtime_wasi_http::p2::{HeaderError, HeaderResult};

use super::{HttpView, RESOURCE_COST, delegate, field_cost};

impl HttpView<'_> {
    /// Returns the memory that the values of one name take.
    fn values_cost(&self, fields: &Resource<FieldMap>, name: &str) -> HeaderResult<usize> {
        let fields = self.wasi.table.get(fields)?;
        let values = fields.get_all(name).iter();
        Ok(values.fold(0, |sum, value| sum.saturating_add(field_cost(name, value.as_bytes()))))
    }

    /// Applies a change to fields, and adjusts their reservation to `size` if the change succeeds.
    fn change(
        &mut self,
        fields: &Resource<FieldMap>,
        size: usize,
        change: impl FnOnce(&mut Self) -> HeaderResult<()>,
    ) -> HeaderResult<()> {
        let before = self.charged_bytes(fields);
        self.charge(fields, size.max(before)).map_err(HeaderError::trap)?;
        let changed = change(self);
        let after = if changed.is_ok() { size } else { before };
        self.charge(fields, after).map_err(HeaderError::trap)?;
        changed
    }
}

impl HostFields for HttpView<'_> {
    fn new(&mut self) -> wasmtime::Result<Resource<FieldMap>> {
        let reservation = self.memory.reserve(RESOURCE_COST)?;
        let fields = HostFields::new(&mut self.wasi)?;
        self.attach_reservation(&fields, reservation);
        Ok(fields)
    }

    fn from_list(&mut self, entries: Vec<(String, Vec<u8>)>) -> HeaderResult<Resource<FieldMap>> {
        let size = entries.iter().fold(RESOURCE_COST, |sum, (name, value)| sum.saturating_add(field_cost(name, value)));
        let reservation = self.memory.reserve(size).map_err(HeaderError::trap)?;
        let fields = HostFields::from_list(&mut self.wasi, entries)?;
        self.attach_reservation(&fields, reservation);
        Ok(fields)
    }

    fn set(&mut self, fields: Resource<FieldMap>, name: String, values: Vec<Vec<u8>>) -> HeaderResult<()> {
        let added = values.iter().fold(0_usize, |sum, value| sum.saturating_add(field_cost(&name, value)));
        let removed = self.values_cost(&fields, &name)?;
        let size = self.charged_bytes(&fields).saturating_sub(removed).saturating_add(added);
        let same = Resource::new_borrow(fields.rep());
        self.change(&fields, size, |view| HostFields::set(&mut view.wasi, same, name, values))
    }

    fn append(&mut self, fields: Resource<FieldMap>, name: String, value: Vec<u8>) -> HeaderResult<()> {
        let size = self.charged_bytes(&fields).saturating_add(field_cost(&name, &value));
        let same = Resource::new_borrow(fields.rep());
        self.change(&fields, size, |view| HostFields::append(&mut view.wasi, same, name, value))
    }

    fn delete(&mut self, fields: Resource<FieldMap>, name: String) -> HeaderResult<()> {
        let size = self.charged_bytes(&fields).saturating_sub(self.values_cost(&fields, &name)?);
        let same = Resource::new_borrow(fields.rep());
        self.change(&fields, size, |view| HostFields::delete(&mut view.wasi, same, name))
    }

    fn clone(&mut self, fields: Resource<FieldMap>) -> wasmtime::Result<Resource<FieldMap>> {
        // Both share their content until one of them is changed (copy-on-write). That copy is charged here in advance.
        let reservation = self.memory.reserve(self.charged_bytes(&fields).max(RESOURCE_COST))?;
        let copy = HostFields::clone(&mut self.wasi, fields)?;
        self.attach_reservation(&copy, reservation);
        Ok(copy)
    }

    fn drop(&mut self, fields: Resource<FieldMap>) -> wasmtime::Result<()> {
        self.take_reservation(&fields);
        HostFields::drop(&mut self.wasi, fields)
    }

    delegate! { types::HostFields:
        fn get(fields: Resource<FieldMap>, name: String) -> wasmtime::Result<Vec<Vec<u8>>>;
        fn has(fields: Resource<FieldMap>, name: String) -> wasmtime::Result<bool>;
        fn entries(fields: Resource<FieldMap>) -> wasmtime::Result<Vec<(String, Vec<u8>)>>;
    }
}
