//! cuBLASLt, loaded when a device is asked for: products of matrices on tensor cores.
//!
//! <https://docs.nvidia.com/cuda/cublas/#using-the-cublaslt-api>. Its matrices stand column by column, so that our rows
//! are its columns: `y = x w^T` is its `y' = w'^T x'`.

#![allow(unsafe_code)]

use super::{Floats, Product};
use cudarc::cublaslt::result as lt;
use cudarc::cublaslt::sys::{
    self, cublasComputeType_t, cublasLtMatmulDescAttributes_t,
    cublasLtMatmulPreferenceAttributes_t, cublasLtMatrixLayout_t, cudaDataType_t,
};
use cudarc::driver::{CudaSlice, CudaStream, DevicePtr};
use rlx_core::{Code, Error, Result};
use std::ptr;
use std::sync::Arc;

/// Bytes that the library may use: NVIDIA's advice for cards since 9.0.
const WORKSPACE: usize = 32 << 20;

/// The library with its memory.
pub(super) struct Library {
    handle: sys::cublasLtHandle_t,
    workspace: CudaSlice<u8>,
}

// SAFETY: a handle may be used by any thread; it has no state but what it was made with.
unsafe impl Send for Library {}
// SAFETY: as above; products are queued in one stream, in whose order they use the workspace.
unsafe impl Sync for Library {}

impl Drop for Library {
    fn drop(&mut self) {
        // SAFETY: it was made by `create_handle` and is freed here alone.
        let _ = unsafe { lt::destroy_handle(self.handle) };
    }
}

fn failed(what: &str) -> impl Fn(lt::CublasError) -> Error + '_ {
    move |e| Error::new(Code::Internal, format!("cuBLASLt: {what}: {e}"))
}

/// Addresses of a product's matrices.
pub(super) struct Addresses {
    pub x: u64,
    pub w: u64,
    pub y: u64,
    pub bias: Option<u64>,
    pub residual: Option<u64>,
}

/// What is freed behind a product.
struct Made(
    Vec<cublasLtMatrixLayout_t>,
    sys::cublasLtMatmulDesc_t,
    sys::cublasLtMatmulPreference_t,
);

impl Drop for Made {
    fn drop(&mut self) {
        // SAFETY: each was made by the library and is freed here alone; a null one is left out.
        unsafe {
            for layout in self.0.drain(..) {
                let _ = lt::destroy_matrix_layout(layout);
            }
            if !self.1.is_null() {
                let _ = lt::destroy_matmul_desc(self.1);
            }
            if !self.2.is_null() {
                let _ = lt::destroy_matmul_pref(self.2);
            }
        }
    }
}

impl Library {
    /// Loads it; `None` where it is not installed, or does not start.
    pub fn new(stream: &Arc<CudaStream>) -> Option<Library> {
        // SAFETY: loading a system library runs its initialisers.
        if !unsafe { sys::is_culib_present() } {
            return None;
        }
        let workspace = stream.alloc_zeros::<u8>(WORKSPACE).ok()?;
        let handle = lt::create_handle().ok()?;
        Some(Library { handle, workspace })
    }

    /// Queues a product.
    ///
    /// # Errors
    /// `Internal` with the library's word.
    pub fn queue(&self, stream: &Arc<CudaStream>, at: &Addresses, p: &Product) -> Result<()> {
        let (rows, columns, k) = (u64::from(p.rows), u64::from(p.columns), u64::from(p.k));
        let single = cudaDataType_t::CUDA_R_32F;
        let (short, result) = match p.floats {
            Floats::Sums => (cudaDataType_t::CUDA_R_16F, single),
            Floats::F16 => (cudaDataType_t::CUDA_R_16F, cudaDataType_t::CUDA_R_16F),
            Floats::Bf16 => (cudaDataType_t::CUDA_R_16BF, cudaDataType_t::CUDA_R_16BF),
        };
        let mut made = Made(Vec::new(), ptr::null_mut(), ptr::null_mut());
        let mut layout = |of, rows: u64, columns: u64| {
            let layout = lt::create_matrix_layout(of, rows, columns, rows as i64);
            let layout = layout.map_err(failed("a matrix"))?;
            made.0.push(layout);
            Ok::<_, Error>(layout)
        };
        let (w, x, y) =
            (layout(short, k, columns)?, layout(short, k, rows)?, layout(result, columns, rows)?);
        made.1 = lt::create_matmul_desc(cublasComputeType_t::CUBLAS_COMPUTE_32F, single)
            .map_err(failed("a product"))?;
        made.2 = lt::create_matmul_pref().map_err(failed("a preference"))?;
        // `CUBLAS_OP_T`.
        let turned = 1i32;
        let (alpha, beta) = (1.0f32, if at.residual.is_some() { 1.0f32 } else { 0.0 });
        // It is of y's type, and has a number for each of the library's rows.
        let epilogue = sys::cublasLtEpilogue_t::CUBLASLT_EPILOGUE_BIAS;
        // SAFETY: every pointer is to a value of the attribute's type and size that lives until the call returns; the
        // matrices lie in buffers that live until the list is dropped and what is queued has run.
        unsafe {
            lt::set_matmul_desc_attribute(
                made.1,
                cublasLtMatmulDescAttributes_t::CUBLASLT_MATMUL_DESC_TRANSA,
                ptr::from_ref(&turned).cast(),
                size_of_val(&turned),
            )
            .map_err(failed("a product"))?;
            if let Some(bias) = &at.bias {
                lt::set_matmul_desc_attribute(
                    made.1,
                    cublasLtMatmulDescAttributes_t::CUBLASLT_MATMUL_DESC_EPILOGUE,
                    ptr::from_ref(&epilogue).cast(),
                    size_of_val(&epilogue),
                )
                .map_err(failed("a bias"))?;
                lt::set_matmul_desc_attribute(
                    made.1,
                    cublasLtMatmulDescAttributes_t::CUBLASLT_MATMUL_DESC_BIAS_POINTER,
                    ptr::from_ref(bias).cast(),
                    size_of_val(bias),
                )
                .map_err(failed("a bias"))?;
            }
            lt::set_matmul_pref_attribute(
                made.2,
                cublasLtMatmulPreferenceAttributes_t::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                ptr::from_ref(&WORKSPACE).cast(),
                size_of_val(&WORKSPACE),
            )
            .map_err(failed("a preference"))?;
            let best = lt::get_matmul_algo_heuristic(self.handle, made.1, w, x, y, y, made.2)
                .map_err(failed("no way to make a product"))?;
            lt::matmul(
                self.handle,
                made.1,
                ptr::from_ref(&alpha).cast(),
                ptr::from_ref(&beta).cast(),
                at.w as *const _,
                w,
                at.x as *const _,
                x,
                at.residual.unwrap_or(at.y) as *const _,
                y,
                at.y as *mut _,
                y,
                &best.algo,
                self.workspace.device_ptr(stream).0 as *mut _,
                WORKSPACE,
                stream.cu_stream().cast(),
            )
            .map_err(failed("a product"))
        }
    }
}
