//! `wasi:keyvalue` in the standard's newest draft.

use wasmtime::component::{Linker, Resource};

use super::PageStart;
use super::bindings::draft2::{atomics, batch, store};
use super::error::{StoreError, SwapError};
use super::{Bucket, Cas, HasKeyvalue, KeyvalueView};

/// The range of numbers in this draft.
const INTEGER_RANGE: std::ops::RangeInclusive<i128> = i64::MIN as i128..=i64::MAX as i128;
/// A version that no entry ever has.
const NO_VERSION: i64 = -1;

pub(super) fn add_to_linker<T: Send + 'static>(
    linker: &mut Linker<T>,
    keyvalue: fn(&mut T) -> KeyvalueView<'_>,
) -> wasmtime::Result<()> {
    store::add_to_linker::<T, HasKeyvalue>(linker, keyvalue)?;
    atomics::add_to_linker::<T, HasKeyvalue>(linker, keyvalue)?;
    batch::add_to_linker::<T, HasKeyvalue>(linker, keyvalue)
}

impl From<StoreError> for store::Error {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::NotGranted { .. } => Self::NoSuchStore,
            other => Self::Other(other.to_string()),
        }
    }
}

impl KeyvalueView<'_> {
    /// Returns the bucket of a handle.
    pub(super) fn bucket(&self, handle: &Resource<Bucket>) -> Result<Bucket, StoreError> {
        Ok(self.table.get(handle)?.clone())
    }

    /// Opens a handle to a granted bucket.
    pub(super) fn open(&mut self, name: &str) -> Result<Resource<Bucket>, StoreError> {
        let bucket = self.keyvalue.open(name)?;
        self.handle(bucket)
    }

    /// Creates a handle. Fails if the instance has reached its limit of handles.
    fn handle<T: Send + 'static>(&mut self, value: T) -> Result<Resource<T>, StoreError> {
        self.keyvalue.log_refusal(self.table.push(value).map_err(StoreError::from))
    }
}

impl store::Host for KeyvalueView<'_> {
    async fn open(&mut self, identifier: String) -> Result<Resource<Bucket>, StoreError> {
        KeyvalueView::open(self, &identifier)
    }

    fn convert_error(&mut self, error: StoreError) -> wasmtime::Result<store::Error> {
        Ok(error.into())
    }
}

impl store::HostBucket for KeyvalueView<'_> {
    async fn get(&mut self, bucket: Resource<Bucket>, key: String) -> Result<Option<Vec<u8>>, StoreError> {
        self.operations().get(self.bucket(&bucket)?, key).await
    }

    async fn set(&mut self, bucket: Resource<Bucket>, key: String, value: Vec<u8>) -> Result<(), StoreError> {
        self.operations().set(self.bucket(&bucket)?, key, value).await
    }

    async fn delete(&mut self, bucket: Resource<Bucket>, key: String) -> Result<(), StoreError> {
        self.operations().delete(self.bucket(&bucket)?, key).await
    }

    async fn exists(&mut self, bucket: Resource<Bucket>, key: String) -> Result<bool, StoreError> {
        self.operations().exists(self.bucket(&bucket)?, key).await
    }

    async fn list_keys(
        &mut self,
        bucket: Resource<Bucket>,
        cursor: Option<String>,
    ) -> Result<store::KeyResponse, StoreError> {
        let page = self.operations().keys(self.bucket(&bucket)?, PageStart::After(cursor)).await?;
        Ok(store::KeyResponse { cursor: page.cursor(), keys: page.keys })
    }

    async fn drop(&mut self, bucket: Resource<Bucket>) -> wasmtime::Result<()> {
        self.table.delete(bucket)?;
        Ok(())
    }
}

impl atomics::Host for KeyvalueView<'_> {
    async fn increment(&mut self, bucket: Resource<Bucket>, key: String, delta: i64) -> Result<i64, StoreError> {
        let sum = self.operations().increment(self.bucket(&bucket)?, key, delta.into(), INTEGER_RANGE).await?;
        i64::try_from(sum).map_err(|_| StoreError::Overflow)
    }

    async fn swap(&mut self, cas: Resource<Cas>, value: Vec<u8>) -> Result<(), SwapError> {
        let cas = self.table.delete(cas).map_err(StoreError::from)?;
        match self.operations().swap(cas, value).await? {
            Ok(()) => Ok(()),
            Err(anew) => Err(SwapError::Failed(self.handle(anew)?)),
        }
    }

    fn convert_cas_error(&mut self, error: SwapError) -> wasmtime::Result<atomics::CasError> {
        Ok(match error {
            SwapError::Store(error) => atomics::CasError::StoreError(error.into()),
            SwapError::Failed(anew) => atomics::CasError::CasFailed(anew),
        })
    }
}

impl atomics::HostCas for KeyvalueView<'_> {
    async fn new(&mut self, bucket: Resource<Bucket>, key: String) -> Result<Resource<Cas>, StoreError> {
        let cas = self.operations().begin_cas(self.bucket(&bucket)?, key).await?;
        self.handle(cas)
    }

    /// Returns the current value. If the key has changed since the handle was created, the handle will never swap,
    /// because its holder may have seen either value.
    async fn current(&mut self, cas: Resource<Cas>) -> Result<Option<Vec<u8>>, StoreError> {
        let snapshot = self.table.get(&cas)?.clone();
        let (value, is_same) = self.operations().current(snapshot).await?;
        if !is_same {
            self.table.get_mut(&cas)?.version = Some(NO_VERSION);
        }
        Ok(value)
    }

    async fn drop(&mut self, cas: Resource<Cas>) -> wasmtime::Result<()> {
        self.table.delete(cas)?;
        Ok(())
    }
}

impl batch::Host for KeyvalueView<'_> {
    async fn get_many(
        &mut self,
        bucket: Resource<Bucket>,
        keys: Vec<String>,
    ) -> Result<Vec<Option<(String, Vec<u8>)>>, StoreError> {
        self.operations().get_many(self.bucket(&bucket)?, keys).await
    }

    async fn set_many(
        &mut self,
        bucket: Resource<Bucket>,
        key_values: Vec<(String, Vec<u8>)>,
    ) -> Result<(), StoreError> {
        self.operations().set_many(self.bucket(&bucket)?, key_values).await
    }

    async fn delete_many(&mut self, bucket: Resource<Bucket>, keys: Vec<String>) -> Result<(), StoreError> {
        self.operations().delete_many(self.bucket(&bucket)?, keys).await
    }
}
