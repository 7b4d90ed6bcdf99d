//! The twins of the functions that take a stream: there, no stream means the calling
//! thread's own.
//!
//! A twin has the signature of its row in the table and calls the function it is a
//! twin of. `cuLaunchKernelEx_ptsz`, whose stream is inside a struct, stands in
//! `launch`; the `_ptds` twins, which take no stream, stand beside their base.

use apex_cuda::driver_functions;
use apex_cuda::types::*;

use crate::run::stream::per_thread;

/// The argument, or the thread's own stream where it is a stream and none is given.
macro_rules! argument {
    (h_stream $argument:ident) => {
        per_thread($argument)
    };
    (stream $argument:ident) => {
        per_thread($argument)
    };
    ($other:ident $argument:ident) => {
        $argument
    };
}

macro_rules! own_stream {
    ($name:ident $module:ident::$base:ident ($($argument:ident: $type:ty),*)) => {
        #[allow(clippy::too_many_arguments, reason = "the driver's own signatures")]
        pub(crate) unsafe extern "C" fn $name($($argument: $type),*) -> CUresult {
            // SAFETY: the caller keeps the C contract, which is the base's.
            unsafe { super::$module::$base($(argument!($argument $argument)),*) }
        }
    };
}

#[rustfmt::skip]
macro_rules! twin {
    (cuEventRecordWithFlags_ptsz $signature:tt) => { own_stream! { cuEventRecordWithFlags_ptsz event::cuEventRecordWithFlags $signature } };
    (cuEventRecord_ptsz $signature:tt) => { own_stream! { cuEventRecord_ptsz event::cuEventRecord $signature } };
    (cuGraphInstantiateWithParams_ptsz $signature:tt) => { own_stream! { cuGraphInstantiateWithParams_ptsz executable::cuGraphInstantiateWithParams $signature } };
    (cuGraphLaunch_ptsz $signature:tt) => { own_stream! { cuGraphLaunch_ptsz executable::cuGraphLaunch $signature } };
    (cuGraphUpload_ptsz $signature:tt) => { own_stream! { cuGraphUpload_ptsz executable::cuGraphUpload $signature } };
    (cuLaunchCooperativeKernel_ptsz $signature:tt) => { own_stream! { cuLaunchCooperativeKernel_ptsz launch::cuLaunchCooperativeKernel $signature } };
    (cuLaunchHostFunc_ptsz $signature:tt) => { own_stream! { cuLaunchHostFunc_ptsz stream::cuLaunchHostFunc $signature } };
    (cuLaunchHostFunc_v2_ptsz $signature:tt) => { own_stream! { cuLaunchHostFunc_v2_ptsz stream::cuLaunchHostFunc_v2 $signature } };
    (cuLaunchKernel_ptsz $signature:tt) => { own_stream! { cuLaunchKernel_ptsz launch::cuLaunchKernel $signature } };
    (cuMemAllocAsync_ptsz $signature:tt) => { own_stream! { cuMemAllocAsync_ptsz pool::cuMemAllocAsync $signature } };
    (cuMemAllocFromPoolAsync_ptsz $signature:tt) => { own_stream! { cuMemAllocFromPoolAsync_ptsz pool::cuMemAllocFromPoolAsync $signature } };
    (cuMemFreeAsync_ptsz $signature:tt) => { own_stream! { cuMemFreeAsync_ptsz pool::cuMemFreeAsync $signature } };
    (cuMemPrefetchAsync_ptsz $signature:tt) => { own_stream! { cuMemPrefetchAsync_ptsz managed::cuMemPrefetchAsync $signature } };
    (cuMemPrefetchAsync_v2_ptsz $signature:tt) => { own_stream! { cuMemPrefetchAsync_v2_ptsz managed::cuMemPrefetchAsync_v2 $signature } };
    (cuMemPrefetchBatchAsync_ptsz $signature:tt) => { own_stream! { cuMemPrefetchBatchAsync_ptsz managed::cuMemPrefetchBatchAsync $signature } };
    (cuStreamBatchMemOp_ptsz $signature:tt) => { own_stream! { cuStreamBatchMemOp_ptsz stream::cuStreamBatchMemOp $signature } };
    (cuStreamBatchMemOp_v2_ptsz $signature:tt) => { own_stream! { cuStreamBatchMemOp_v2_ptsz stream::cuStreamBatchMemOp_v2 $signature } };
    (cuMemcpyBatchAsync_ptsz $signature:tt) => { own_stream! { cuMemcpyBatchAsync_ptsz copy::cuMemcpyBatchAsync $signature } };
    (cuMemcpy2DAsync_v2_ptsz $signature:tt) => { own_stream! { cuMemcpy2DAsync_v2_ptsz copy::cuMemcpy2DAsync_v2 $signature } };
    (cuMemcpy3DAsync_v2_ptsz $signature:tt) => { own_stream! { cuMemcpy3DAsync_v2_ptsz copy::cuMemcpy3DAsync_v2 $signature } };
    (cuMemcpy3DPeerAsync_ptsz $signature:tt) => { own_stream! { cuMemcpy3DPeerAsync_ptsz copy::cuMemcpy3DPeerAsync $signature } };
    (cuMemcpyAsync_ptsz $signature:tt) => { own_stream! { cuMemcpyAsync_ptsz copy::cuMemcpyAsync $signature } };
    (cuMemcpyAtoHAsync_v2_ptsz $signature:tt) => { own_stream! { cuMemcpyAtoHAsync_v2_ptsz copy::cuMemcpyAtoHAsync_v2 $signature } };
    (cuMemcpyBatchAsync_v2_ptsz $signature:tt) => { own_stream! { cuMemcpyBatchAsync_v2_ptsz copy::cuMemcpyBatchAsync_v2 $signature } };
    (cuMemcpyDtoDAsync_v2_ptsz $signature:tt) => { own_stream! { cuMemcpyDtoDAsync_v2_ptsz copy::cuMemcpyDtoDAsync_v2 $signature } };
    (cuMemcpyDtoHAsync_v2_ptsz $signature:tt) => { own_stream! { cuMemcpyDtoHAsync_v2_ptsz copy::cuMemcpyDtoHAsync_v2 $signature } };
    (cuMemcpyHtoAAsync_v2_ptsz $signature:tt) => { own_stream! { cuMemcpyHtoAAsync_v2_ptsz copy::cuMemcpyHtoAAsync_v2 $signature } };
    (cuMemcpyHtoDAsync_v2_ptsz $signature:tt) => { own_stream! { cuMemcpyHtoDAsync_v2_ptsz copy::cuMemcpyHtoDAsync_v2 $signature } };
    (cuMemcpyPeerAsync_ptsz $signature:tt) => { own_stream! { cuMemcpyPeerAsync_ptsz copy::cuMemcpyPeerAsync $signature } };
    (cuMemcpyWithAttributesAsync_ptsz $signature:tt) => { own_stream! { cuMemcpyWithAttributesAsync_ptsz copy::cuMemcpyWithAttributesAsync $signature } };
    (cuMemsetD16Async_ptsz $signature:tt) => { own_stream! { cuMemsetD16Async_ptsz fill::cuMemsetD16Async $signature } };
    (cuMemsetD2D16Async_ptsz $signature:tt) => { own_stream! { cuMemsetD2D16Async_ptsz fill::cuMemsetD2D16Async $signature } };
    (cuMemsetD2D32Async_ptsz $signature:tt) => { own_stream! { cuMemsetD2D32Async_ptsz fill::cuMemsetD2D32Async $signature } };
    (cuMemsetD2D8Async_ptsz $signature:tt) => { own_stream! { cuMemsetD2D8Async_ptsz fill::cuMemsetD2D8Async $signature } };
    (cuMemsetD32Async_ptsz $signature:tt) => { own_stream! { cuMemsetD32Async_ptsz fill::cuMemsetD32Async $signature } };
    (cuMemsetD8Async_ptsz $signature:tt) => { own_stream! { cuMemsetD8Async_ptsz fill::cuMemsetD8Async $signature } };
    (cuStreamAddCallback_ptsz $signature:tt) => { own_stream! { cuStreamAddCallback_ptsz stream::cuStreamAddCallback $signature } };
    (cuStreamAttachMemAsync_ptsz $signature:tt) => { own_stream! { cuStreamAttachMemAsync_ptsz stream::cuStreamAttachMemAsync $signature } };
    (cuStreamBeginCaptureToGraph_ptsz $signature:tt) => { own_stream! { cuStreamBeginCaptureToGraph_ptsz capture::cuStreamBeginCaptureToGraph $signature } };
    (cuStreamBeginCapture_ptsz $signature:tt) => { own_stream! { cuStreamBeginCapture_ptsz capture::cuStreamBeginCapture $signature } };
    (cuStreamBeginCapture_v2_ptsz $signature:tt) => { own_stream! { cuStreamBeginCapture_v2_ptsz capture::cuStreamBeginCapture_v2 $signature } };
    (cuStreamCopyAttributes_ptsz $signature:tt) => { own_stream! { cuStreamCopyAttributes_ptsz stream::cuStreamCopyAttributes $signature } };
    (cuStreamEndCapture_ptsz $signature:tt) => { own_stream! { cuStreamEndCapture_ptsz capture::cuStreamEndCapture $signature } };
    (cuStreamGetAttribute_ptsz $signature:tt) => { own_stream! { cuStreamGetAttribute_ptsz stream::cuStreamGetAttribute $signature } };
    (cuStreamGetCaptureInfo_ptsz $signature:tt) => { own_stream! { cuStreamGetCaptureInfo_ptsz capture::cuStreamGetCaptureInfo $signature } };
    (cuStreamGetCaptureInfo_v2_ptsz $signature:tt) => { own_stream! { cuStreamGetCaptureInfo_v2_ptsz capture::cuStreamGetCaptureInfo_v2 $signature } };
    (cuStreamGetCaptureInfo_v3_ptsz $signature:tt) => { own_stream! { cuStreamGetCaptureInfo_v3_ptsz capture::cuStreamGetCaptureInfo_v3 $signature } };
    (cuStreamGetCtx_ptsz $signature:tt) => { own_stream! { cuStreamGetCtx_ptsz stream::cuStreamGetCtx $signature } };
    (cuStreamGetCtx_v2_ptsz $signature:tt) => { own_stream! { cuStreamGetCtx_v2_ptsz stream::cuStreamGetCtx_v2 $signature } };
    (cuStreamGetDevice_ptsz $signature:tt) => { own_stream! { cuStreamGetDevice_ptsz stream::cuStreamGetDevice $signature } };
    (cuStreamGetFlags_ptsz $signature:tt) => { own_stream! { cuStreamGetFlags_ptsz stream::cuStreamGetFlags $signature } };
    (cuStreamGetId_ptsz $signature:tt) => { own_stream! { cuStreamGetId_ptsz stream::cuStreamGetId $signature } };
    (cuStreamGetPriority_ptsz $signature:tt) => { own_stream! { cuStreamGetPriority_ptsz stream::cuStreamGetPriority $signature } };
    (cuStreamIsCapturing_ptsz $signature:tt) => { own_stream! { cuStreamIsCapturing_ptsz stream::cuStreamIsCapturing $signature } };
    (cuStreamQuery_ptsz $signature:tt) => { own_stream! { cuStreamQuery_ptsz stream::cuStreamQuery $signature } };
    (cuStreamSetAttribute_ptsz $signature:tt) => { own_stream! { cuStreamSetAttribute_ptsz stream::cuStreamSetAttribute $signature } };
    (cuStreamSynchronize_ptsz $signature:tt) => { own_stream! { cuStreamSynchronize_ptsz stream::cuStreamSynchronize $signature } };
    (cuStreamUpdateCaptureDependencies_ptsz $signature:tt) => { own_stream! { cuStreamUpdateCaptureDependencies_ptsz capture::cuStreamUpdateCaptureDependencies $signature } };
    (cuStreamUpdateCaptureDependencies_v2_ptsz $signature:tt) => { own_stream! { cuStreamUpdateCaptureDependencies_v2_ptsz capture::cuStreamUpdateCaptureDependencies_v2 $signature } };
    (cuStreamWaitEvent_ptsz $signature:tt) => { own_stream! { cuStreamWaitEvent_ptsz stream::cuStreamWaitEvent $signature } };
    (cuStreamWaitValue32_ptsz $signature:tt) => { own_stream! { cuStreamWaitValue32_ptsz stream::cuStreamWaitValue32 $signature } };
    (cuStreamWaitValue32_v2_ptsz $signature:tt) => { own_stream! { cuStreamWaitValue32_v2_ptsz stream::cuStreamWaitValue32_v2 $signature } };
    (cuStreamWaitValue64_ptsz $signature:tt) => { own_stream! { cuStreamWaitValue64_ptsz stream::cuStreamWaitValue64 $signature } };
    (cuStreamWaitValue64_v2_ptsz $signature:tt) => { own_stream! { cuStreamWaitValue64_v2_ptsz stream::cuStreamWaitValue64_v2 $signature } };
    (cuStreamWriteValue32_ptsz $signature:tt) => { own_stream! { cuStreamWriteValue32_ptsz stream::cuStreamWriteValue32 $signature } };
    (cuStreamWriteValue32_v2_ptsz $signature:tt) => { own_stream! { cuStreamWriteValue32_v2_ptsz stream::cuStreamWriteValue32_v2 $signature } };
    (cuStreamWriteValue64_ptsz $signature:tt) => { own_stream! { cuStreamWriteValue64_ptsz stream::cuStreamWriteValue64 $signature } };
    (cuStreamWriteValue64_v2_ptsz $signature:tt) => { own_stream! { cuStreamWriteValue64_v2_ptsz stream::cuStreamWriteValue64_v2 $signature } };
    ($other:ident $signature:tt) => {};
}

macro_rules! twins {
    ($(
        $kind:ident $treatment:ident $(($module:ident))? $order:ident $since:literal
        fn $name:ident($($argument:ident: $type:ty),* $(,)?) $(-> $result:ty)?;
    )*) => {
        $(twin! { $name ($($argument: $type),*) })*
    };
}

driver_functions!(twins);
