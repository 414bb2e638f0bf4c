package runtime

import (
	"fmt"
	"runtime"
	"unsafe"
)

type Handle struct {
	value int32
}

func (h *Handle) Use() int32 {
	if h.value == 0 {
		panic("nil handle")
	}
	return h.value
}

func (h *Handle) Take() int32 {
	if h.value == 0 {
		panic("nil handle")
	}
	value := h.value
	h.value = 0
	return value
}

func (h *Handle) Set(value int32) {
	if value == 0 {
		panic("nil handle")
	}
	if h.value != 0 {
		panic("handle already set")
	}
	h.value = value
}

func (h *Handle) TakeOrNil() int32 {
	value := h.value
	h.value = 0
	return value
}

func MakeHandle(value int32) *Handle {
	if value == 0 {
		panic("nil handle")
	}
	return &Handle{value}
}

func Allocate(pinner *runtime.Pinner, size, align uintptr) unsafe.Pointer {
	pointer := allocateRaw(size, align)
	pinner.Pin(pointer)
	return pointer
}

func allocateRaw(size, align uintptr) unsafe.Pointer {
	if size == 0 {
		return nil
	}

	if size%align != 0 {
		panic(fmt.Sprintf("size %v is not compatible with alignment %v", size, align))
	}

	switch align {
	case 1:
		return unsafe.Pointer(unsafe.SliceData(make([]uint8, size)))
	case 2:
		return unsafe.Pointer(unsafe.SliceData(make([]uint16, size/align)))
	case 4:
		return unsafe.Pointer(unsafe.SliceData(make([]uint32, size/align)))
	case 8:
		return unsafe.Pointer(unsafe.SliceData(make([]uint64, size/align)))
	default:
		panic(fmt.Sprintf("unsupported alignment: %v", align))
	}
}

// `cabi_realloc` may be called before the Go runtime has been initialized: the adapter from WASI 0.1 allocates its state, 64 KiB,
// by it. Such allocations are made from this array. (Upstream calls `runtime.sbrk`, which linkers of Go 1.23 to 1.26 refuse to
// link.)
var early [256 << 10]byte

var earlyUsed uintptr

func allocateEarly(size, align uintptr) unsafe.Pointer {
	start := uintptr(unsafe.Pointer(&early[0])) + earlyUsed
	padding := offset(start, align)
	if earlyUsed+padding+size > uintptr(len(early)) {
		panic("out of memory before the start of the runtime")
	}
	earlyUsed += padding + size
	return unsafe.Add(unsafe.Pointer(&early[0]), earlyUsed-size)
}

var useGCAllocations = false

func init() {
	useGCAllocations = true
}

func offset(ptr, align uintptr) uintptr {
	newptr := (ptr + align - 1) &^ (align - 1)
	return newptr - ptr
}

// parameters pins the lists that the host passes to an export, from their allocation until they are lifted.
var parameters = runtime.Pinner{}

// results pins the lists that the import under way returns; nil when there is none.
var results *runtime.Pinner

// collectEvery is the number of bytes that the host may allocate before a garbage collection is considered.
const collectEvery = 1 << 20

// uncollected is the number of bytes that the host allocated since then.
var uncollected uintptr

// Enter precedes the call of an import, whose lists belong to the pinner. No other goroutine runs until Leave.
func Enter(pinner *runtime.Pinner) {
	procPin()
	results = pinner
}

// Leave follows the call of an import.
func Leave() {
	results = nil
	procUnpin()
	collect()
}

// Unpin is called by an export when its parameters are lifted.
func Unpin() {
	parameters.Unpin()
	collect()
}

// probe keeps the compiler from leaving out the allocation of collect.
var probe []byte

// collect lets the garbage collector start, if the host has allocated much. Allocations of the host do not start it, and every
// allocation of more than 32 KiB does when the heap has reached the collector's goal.
func collect() {
	if uncollected >= collectEvery {
		uncollected = 0
		probe = make([]byte, 32<<10+1)
		probe = nil
	}
}

// procPin keeps the scheduler and the garbage collector from starting in this thread, the only one, until procUnpin. The runtime
// declares it linkable.
//
//go:linkname procPin runtime.procPin
func procPin() int

//go:linkname procUnpin runtime.procUnpin
func procUnpin()

//go:wasmimport wasi_snapshot_preview1 adapter_monotonic_clock_set_paused
func adapterMonotonicClockSetPaused(paused bool)

// `cabi_realloc` is called by the host while it lowers a list. Until it returns, the component model forbids calls of imports: they
// trap with "cannot leave component instance". An allocation of Go may start a garbage collection, which yields to other goroutines
// and polls for events by an import; a goroutine that runs meanwhile may call any import. So the scheduler is kept from running, by
// which the collector does not start either. The collector starts at the next allocation, or by `collect`. What is left is the
// clock, which sweeping and scavenging read: the adapter is told to return a cached value
// (https://github.com/bytecodealliance/wasmtime/pull/13563).
//
// The function does not check the size of the stack, because that is a point at which the scheduler may run.
//
//go:wasmexport cabi_realloc
//go:nosplit
func cabiRealloc(oldPointer unsafe.Pointer, oldSize, align, newSize uintptr) unsafe.Pointer {
	if !useGCAllocations {
		return allocateEarly(newSize, align)
	}
	procPin()
	pointer := reallocate(oldPointer, oldSize, align, newSize)
	procUnpin()
	return pointer
}

func reallocate(oldPointer unsafe.Pointer, oldSize, align, newSize uintptr) unsafe.Pointer {
	if oldPointer != nil || oldSize != 0 {
		panic("the host reallocates only when it changes the encoding of a string, which is UTF-8 here")
	}
	pinner := &parameters
	if results != nil {
		pinner = results
	}
	adapterMonotonicClockSetPaused(true)
	pointer := Allocate(pinner, newSize, align)
	adapterMonotonicClockSetPaused(false)
	uncollected += newSize
	return pointer
}
