// A stand-in GPU: a device that is not the CPU, and computes like it.
//
// It is a backend of torch's PrivateUse1, the place that torch keeps for devices from elsewhere. Its memory is the
// host's, its operators are the CPU's on the same bytes, and its results are the CPU's bit for bit. What it has of a
// GPU is what programs trip over: tensors that must not be mixed with the CPU's, a random stream of its own, memory
// that it copies from without waiting, autocast. README.md says how it is used; standin.py gives it its name and its
// Python module.
//
// In this order: what is counted, memory, random numbers, the device as torch asks for it, the operators, autocast, what Python may
// call.

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <ATen/Operators.h>
#include <ATen/autocast_mode.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/Resize.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/ops/_local_scalar_dense_native.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/core/impl/alloc_cpu.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/library.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <set>
#include <unordered_set>

namespace {

using namespace at;

constexpr auto OURS = DeviceType::PrivateUse1;
const Device DEVICE(OURS, 0);  // the only one
const DispatchKeySet KEYS(DispatchKey::PrivateUse1);

// ---- what is counted ------------------------------------------------------------------------------------------------

// How many operators have run on the device: what computes there. Making, viewing and reading a tensor, and copies from
// and to the host, are none. The count may lie in a file that many processes share; then it is that of them all.
std::atomic<int64_t> own_count{0};
std::atomic<int64_t>* operators = &own_count;

void share_count(const std::string& path) {
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  TORCH_CHECK(file >= 0 && ftruncate(file, sizeof(*operators)) == 0, "the count cannot be kept in ", path);
  void* page = mmap(nullptr, sizeof(*operators), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  TORCH_CHECK(page != MAP_FAILED, "the count cannot be kept in ", path);
  operators = static_cast<std::atomic<int64_t>*>(page);
}

// Whether this process has used the device. A process forked from it must not, as on CUDA.
std::atomic<bool> used{false};

// ---- memory ---------------------------------------------------------------------------------------------------------

// It counts as CUDA's allocator does: in whole blocks, and in bytes as asked for. Results count once a kernel ends.
struct DeviceMemory final : c10::DeviceAllocator {
  using Stats = c10::CachingDeviceAllocator::DeviceStats;
  static constexpr int64_t BLOCK = 512;
  static constexpr auto ALL = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);

  // What counts as long as a pointer lives: so many bytes, of memory that somebody else holds.
  struct Counted {
    explicit Counted(int64_t bytes, Storage held = {}) : bytes(bytes), held(std::move(held)) { change(1); }
    ~Counted() { change(-1); }
    void change(int sign) const {
      std::lock_guard lock(mutex);
      const int64_t blocks = (bytes + BLOCK - 1) / BLOCK * BLOCK;
      const auto move = [](c10::CachingAllocator::Stat& stat, int64_t by) {
        by > 0 ? stat.increase(by) : stat.decrease(-by);
      };
      move(stats.allocated_bytes[ALL], sign * blocks);
      move(stats.requested_bytes[ALL], sign * bytes);
    }
    static void release(void* counted) { delete static_cast<Counted*>(counted); }
    int64_t bytes;
    Storage held;
  };

  DataPtr allocate(size_t bytes) override {
    used = true;
    void* pointer = c10::alloc_cpu(bytes);
    Storage held{Storage::use_byte_size_t{}, bytes, DataPtr{pointer, pointer, &c10::free_cpu, Device(kCPU)}};
    return {pointer, new Counted(static_cast<int64_t>(bytes), std::move(held)), &Counted::release, DEVICE};
  }
  void copy_data(void* to, const void* from, std::size_t bytes) const final { default_copy_data(to, from, bytes); }

  bool initialized() override { return true; }
  void emptyCache(MempoolId_t) override {}
  void recordStream(const DataPtr&, Stream) override {}
  Stats getDeviceStats(DeviceIndex) override {
    std::lock_guard lock(mutex);
    return stats;
  }
  void resetAccumulatedStats(DeviceIndex) override {}
  void resetPeakStats(DeviceIndex) override {
    std::lock_guard lock(mutex);
    stats.allocated_bytes[ALL].reset_peak();
    stats.requested_bytes[ALL].reset_peak();
  }

  static inline std::mutex mutex;
  static inline Stats stats;
};

DeviceMemory memory;
REGISTER_ALLOCATOR(OURS, &memory);

// The host's page-locked memory. Nothing is locked; it is remembered what would be, for is_pinned().
struct PinnedMemory final : c10::Allocator {
  DataPtr allocate(size_t bytes) override {
    void* pointer = c10::alloc_cpu(bytes);
    std::lock_guard lock(mutex);
    known.insert(pointer);
    return {pointer, pointer, &release, Device(kCPU)};
  }
  static void release(void* pointer) {
    {
      std::lock_guard lock(mutex);
      known.erase(pointer);
    }
    c10::free_cpu(pointer);
  }
  static bool holds(const void* pointer) {
    std::lock_guard lock(mutex);
    return known.count(pointer) > 0;
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, std::size_t bytes) const final { default_copy_data(to, from, bytes); }

  static inline std::mutex mutex;
  static inline std::unordered_set<const void*> known;
};

PinnedMemory pinned;

// ---- random numbers -------------------------------------------------------------------------------------------------

// The CPU's generator, but a seed begins another stream here than there, as it does on a GPU.
struct DeviceGenerator final : CPUGeneratorImpl {
  static constexpr uint64_t OTHER = 0x5DEECE66D;

  DeviceGenerator() : CPUGeneratorImpl(c10::default_rng_seed_val ^ OTHER) {
    device_ = DEVICE;
    key_set_ = KEYS;
  }
  void set_current_seed(uint64_t seed) override { CPUGeneratorImpl::set_current_seed(seed ^ OTHER); }
  uint64_t current_seed() const override { return CPUGeneratorImpl::current_seed() ^ OTHER; }
};

const Generator& default_generator() {
  static const Generator generator = make_generator<DeviceGenerator>();
  return generator;
}

// ---- the device as torch asks for it --------------------------------------------------------------------------------

// One device with one stream; whatever is queued on it has run when the call returns.
struct Guard final : c10::impl::DeviceGuardImplInterface {
  static Stream only() { return Stream(Stream::DEFAULT, DEVICE); }

  DeviceType type() const override { return OURS; }
  Device exchangeDevice(Device) const override { return DEVICE; }
  Device getDevice() const override { return DEVICE; }
  void setDevice(Device device) const override { require(device.index()); }
  void uncheckedSetDevice(Device) const noexcept override {}
  DeviceIndex deviceCount() const noexcept override { return 1; }
  Stream getStream(Device) const noexcept override { return only(); }
  Stream getDefaultStream(Device) const override { return only(); }
  Stream getNewStream(Device, int) const override { return only(); }
  Stream exchangeStream(Stream) const noexcept override { return only(); }
  bool queryStream(const Stream&) const override { return true; }
  void synchronizeStream(const Stream&) const override {}
  void synchronizeDevice(DeviceIndex) const override {}
  void record(void**, const Stream&, DeviceIndex, EventFlag) const override {}
  void block(void*, const Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
  void synchronizeEvent(void*) const override {}
  void destroyEvent(void*, DeviceIndex) const noexcept override {}

  static void require(DeviceIndex index) {
    TORCH_CHECK(index <= 0, "there is one stand-in GPU, number 0, and no number ", static_cast<int>(index));
  }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

struct Hooks final : PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(DeviceIndex) const override { return true; }
  DeviceIndex deviceCount() const override { return 1; }
  DeviceIndex getCurrentDevice() const override { return 0; }
  void setCurrentDevice(DeviceIndex index) const override { Guard::require(index); }
  DeviceIndex exchangeDevice(DeviceIndex) const override { return 0; }
  DeviceIndex maybeExchangeDevice(DeviceIndex) const override { return 0; }
  const Generator& getDefaultGenerator(DeviceIndex) const override { return default_generator(); }
  Generator getNewGenerator(DeviceIndex) const override { return make_generator<DeviceGenerator>(); }
  Device getDeviceFromPtr(void*) const override { return DEVICE; }
  Allocator* getPinnedMemoryAllocator() const override { return &pinned; }
  bool isPinnedPtr(const void* pointer) const override { return PinnedMemory::holds(pointer); }
  void resizePrivateUse1Bytes(const Storage& storage, size_t bytes) const override {
    auto* impl = storage.unsafeGetStorageImpl();
    DataPtr fresh = memory.allocate(bytes);
    if (impl->nbytes()) std::memcpy(fresh.get(), impl->data(), std::min(impl->nbytes(), bytes));
    impl->set_data_ptr_noswap(std::move(fresh));
    impl->set_nbytes(bytes);
  }
};

// ---- the operators --------------------------------------------------------------------------------------------------

bool is_ours(const Tensor& tensor) { return tensor.defined() && tensor.device().type() == OURS; }

// A tensor over `storage`, of the place, type and shape of `like`.
Tensor over(Storage storage, DispatchKeySet keys, const Tensor& like) {
  auto made = at::detail::make_tensor<TensorImpl>(std::move(storage), keys, like.dtype());
  made.unsafeGetTensorImpl()->set_storage_offset(like.storage_offset());
  made.unsafeGetTensorImpl()->set_sizes_and_strides(like.sizes(), like.strides());
  return made;
}

// The same bytes under the name of another device; they live as long as the one or the other does.
Tensor as_cpu(const Tensor& tensor) {
  if (!is_ours(tensor)) return tensor;
  const Storage& storage = tensor.storage();
  DataPtr pointer{
      storage.mutable_data(), new Storage(storage), [](void* held) { delete static_cast<Storage*>(held); }, kCPU};
  auto made = over(
      {Storage::use_byte_size_t{}, storage.nbytes(), std::move(pointer), c10::GetAllocator(kCPU), true},
      DispatchKeySet(DispatchKey::CPU), tensor);
  if (tensor.is_conj()) made._set_conj(true);
  if (tensor.is_neg()) made._set_neg(true);
  return made;
}

Storage as_ours(const Storage& storage) {
  auto* counted = new DeviceMemory::Counted(static_cast<int64_t>(storage.nbytes()), storage);
  DataPtr pointer{storage.mutable_data(), counted, &DeviceMemory::Counted::release, DEVICE};
  return {Storage::use_byte_size_t{}, storage.nbytes(), std::move(pointer), &memory, true};
}

std::optional<Tensor> as_cpu(const std::optional<Tensor>& tensor) {
  return tensor && tensor->defined() ? std::optional(as_cpu(*tensor)) : std::nullopt;
}

Tensor as_ours(const Tensor& tensor) {
  if (!tensor.defined() || tensor.device().type() != kCPU) return tensor;
  return over(as_ours(tensor.storage()), KEYS, tensor);
}

// `tensor`, which is ours, takes over the bytes and the shape of `other`.
void take_over(const Tensor& tensor, const Storage& storage, const Tensor& other) {
  auto* impl = tensor.unsafeGetTensorImpl();
  impl->set_storage_keep_dtype(storage);
  impl->set_storage_offset(other.storage_offset());
  impl->set_sizes_and_strides(other.sizes(), other.strides());
}

// While it lives, the CPU's default generator is at `stream`, which ends where that has got to.
struct Borrowed {
  explicit Borrowed(Generator stream) : stream(std::move(stream)), host(at::detail::getDefaultCPUGenerator()) {
    const std::lock_guard lock(host.mutex());
    own = host.get_state();
    host.set_state(this->stream.get_state());
  }
  ~Borrowed() {
    const std::lock_guard lock(host.mutex());
    stream.set_state(host.get_state());
    host.set_state(own);
  }
  Generator stream, host;
  Tensor own;
};

// Operators that take some of their tensors from the host, on a GPU too.
const std::set<std::string> MIX = {"aten::_pack_padded_sequence", "aten::_pad_packed_sequence"};

// One call: its tensors on the way to the CPU's kernel and back.
struct Call {
  const c10::FunctionSchema& schema;
  std::vector<std::pair<Tensor, Tensor>> pairs;  // ours, and the CPU's on the same bytes

  Tensor give(const Tensor& tensor, bool mixes) {
    if (!tensor.defined()) return tensor;
    if (is_ours(tensor)) return pairs.emplace_back(tensor, as_cpu(tensor)).second;
    TORCH_CHECK(
        mixes || tensor.dim() == 0 || tensor.device().type() != kCPU,
        "Expected all tensors to be on the same device, but found at least two devices, ", DEVICE, " and cpu! (",
        schema.name(), ")");
    return tensor;
  }

  // What the CPU's kernel returned: a tensor that it was given, a view of one, or a new one.
  Tensor take(const Tensor& tensor) {
    if (!tensor.defined() || tensor.device().type() != kCPU) return tensor;
    for (auto& [ours, cpus] : pairs)
      if (cpus.is_same(tensor)) return ours;
    for (auto& [ours, cpus] : pairs)
      if (tensor.storage().is_alias_of(cpus.storage())) return over(ours.storage(), KEYS, tensor);
    return as_ours(tensor);
  }

  // A kernel may have given a tensor other bytes or another shape (out=, resize_).
  void follow_resized() {
    for (auto& [ours, cpus] : pairs)
      if (cpus.storage().data() != ours.storage().data())
        take_over(ours, as_ours(cpus.storage()), cpus);
      else if (cpus.sizes() != ours.sizes() || cpus.strides() != ours.strides())
        take_over(ours, ours.storage(), cpus);
  }
};

// Every operator that has no kernel of its own below: the CPU's, on the same bytes, so that what it writes in place
// lands, declared (add_) or not (the running averages of BatchNorm).
void on_the_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  ++*operators;
  used = true;
  Call call{op.schema(), {}};
  const bool mixes = MIX.count(op.schema().name()) > 0;
  std::optional<Generator> stream;
  if (op.hasTag(at::Tag::nondeterministic_seeded)) stream = default_generator();

  const auto arguments = op.schema().arguments().size(), first = stack->size() - arguments;
  for (auto i = first; i < stack->size(); i++) {
    auto& value = (*stack)[i];
    if (value.isTensor()) {
      value = call.give(value.toTensor(), mixes);
    } else if (value.isTensorList()) {
      c10::List<Tensor> given;
      for (const Tensor& tensor : value.toTensorList()) given.push_back(call.give(tensor, mixes));
      value = std::move(given);
    } else if (value.isList() && value.toListRef().size() && value.toListRef()[0].isTensorList()) {  // of a gather
      c10::List<c10::List<Tensor>> given;
      for (const IValue& list : value.toListRef()) {
        c10::List<Tensor> inner;
        for (const Tensor& tensor : list.toTensorList()) inner.push_back(call.give(tensor, mixes));
        given.push_back(std::move(inner));
      }
      value = std::move(given);
    } else if (value.isOptionalTensorList()) {  // the indices of x[i, j], which may lie on the host
      c10::List<std::optional<Tensor>> given;
      for (const std::optional<Tensor>& tensor : value.toOptionalTensorList())
        given.push_back(tensor ? std::optional(call.give(*tensor, true)) : std::nullopt);
      value = std::move(given);
    } else if (value.isDevice() && value.toDevice().type() == OURS) {
      value = Device(kCPU);
    } else if (value.isGenerator()) {
      stream = value.toGenerator();
      TORCH_CHECK(
          stream->device().type() == OURS, "Expected a '", DEVICE.str(), "' generator but found one of '",
          stream->device().str(), "'");
      value = IValue();
    }
  }
  {
    std::optional<Borrowed> borrowed;
    if (stream) borrowed.emplace(*stream);
    op.redispatchBoxed(DispatchKeySet(DispatchKey::CPU), stack);
  }
  call.follow_resized();

  for (auto i = stack->size() - op.schema().returns().size(); i < stack->size(); i++) {
    auto& value = (*stack)[i];
    if (value.isTensor()) {
      value = call.take(value.toTensor());
    } else if (value.isTensorList()) {
      c10::List<Tensor> taken;
      for (const Tensor& tensor : value.toTensorList()) taken.push_back(call.take(tensor));
      value = std::move(taken);
    }
  }
}

// gloo reads what it sends from the host's memory. On CUDA that ends the process.
const std::set<std::string> HOST_ONLY = {"c10d::send", "c10d::recv_", "c10d::recv_any_source_"};

void refuse(const c10::OperatorHandle& op, torch::jit::Stack*) {
  TORCH_CHECK(false, op.schema().name(), " of gloo takes tensors of the host only, and not those of ", DEVICE);
}

// Kernels that torch wants of every backend: making, copying, reading, resizing and viewing.

namespace kernels {

Tensor empty(
    IntArrayRef sizes, std::optional<ScalarType> type, std::optional<Layout>, std::optional<Device> device,
    std::optional<bool> pin, std::optional<MemoryFormat> format) {
  if (device) Guard::require(device->index());
  TORCH_CHECK(!pin.value_or(false), "Only dense CPU tensors can be pinned");
  return at::detail::empty_generic(sizes, &memory, KEYS, c10::dtype_or_default(type), format);
}

Tensor empty_strided(
    IntArrayRef sizes, IntArrayRef strides, std::optional<ScalarType> type, std::optional<Layout>,
    std::optional<Device> device, std::optional<bool>) {
  if (device) Guard::require(device->index());
  return at::detail::empty_strided_generic(sizes, strides, &memory, KEYS, c10::dtype_or_default(type));
}

Tensor copy_from(const Tensor& from, const Tensor& to, bool) {
  if (is_ours(from) && is_ours(to)) ++*operators;
  as_cpu(to).copy_(as_cpu(from));
  return to;
}

Tensor copy_from_and_resize(const Tensor& from, const Tensor& to) {
  to.resize_(from.sizes());
  return copy_from(from, to, false);
}

Scalar local_scalar(const Tensor& tensor) { return at::native::_local_scalar_dense_cpu(as_cpu(tensor)); }

const Tensor& resize(const Tensor& tensor, SymIntArrayRef sizes, std::optional<MemoryFormat> format) {
  at::native::resize_impl_cpu_(tensor.unsafeGetTensorImpl(), C10_AS_INTARRAYREF_SLOW(sizes), std::nullopt);
  if (format) tensor.unsafeGetTensorImpl()->empty_tensor_restride(*format);
  return tensor;
}

Tensor& set_storage(Tensor& tensor, Storage storage, SymInt offset, SymIntArrayRef sizes, SymIntArrayRef strides) {
  auto* impl = tensor.unsafeGetTensorImpl();
  auto shape = C10_AS_INTARRAYREF_SLOW(sizes), steps = C10_AS_INTARRAYREF_SLOW(strides);
  impl->set_storage_keep_dtype(std::move(storage));
  impl->set_storage_offset(offset.expect_int());
  if (steps.empty() && !shape.empty())
    impl->set_sizes_contiguous(shape);
  else
    impl->set_sizes_and_strides(shape, steps);
  return tensor;
}

Tensor& set_whole_storage(Tensor& tensor, Storage storage) {
  const SymInt count(static_cast<int64_t>(storage.nbytes() / tensor.dtype().itemsize()));
  return set_storage(tensor, std::move(storage), 0, {count}, {});
}

Tensor& set_tensor(Tensor& tensor, const Tensor& source) {
  take_over(tensor, source.storage(), source);
  return tensor;
}

Tensor& set_nothing(Tensor& tensor) {
  return set_whole_storage(tensor, {Storage::use_byte_size_t{}, 0, memory.allocate(0), &memory, true});
}

Tensor as_strided(const Tensor& tensor, SymIntArrayRef sizes, SymIntArrayRef strides, std::optional<SymInt> offset) {
  auto start = offset ? std::optional(offset->expect_int()) : std::nullopt;
  return at::native::as_strided_tensorimpl(
      tensor, C10_AS_INTARRAYREF_SLOW(sizes), C10_AS_INTARRAYREF_SLOW(strides), start);
}

Tensor view(const Tensor& tensor, SymIntArrayRef sizes) {
  return at::native::view(tensor, C10_AS_INTARRAYREF_SLOW(sizes));
}

Tensor reshape_alias(const Tensor& tensor, SymIntArrayRef sizes, SymIntArrayRef strides) {
  return at::native::_reshape_alias(tensor, C10_AS_INTARRAYREF_SLOW(sizes), C10_AS_INTARRAYREF_SLOW(strides));
}

Tensor unfold(const Tensor& tensor, int64_t dimension, int64_t size, int64_t step) {
  return at::native::unfold(tensor, dimension, size, step);
}

// A zero of forward mode: a shape without bytes, with which torch knows how to compute.
Tensor zero_without_bytes(
    IntArrayRef sizes, std::optional<ScalarType> type, std::optional<Layout>, std::optional<Device>, std::optional<bool>) {
  static at::native::ZeroTensorAllocator no_bytes(DEVICE);
  return at::detail::empty_generic(
      sizes, &no_bytes, KEYS.add(DispatchKey::ZeroTensor), c10::dtype_or_default(type), std::nullopt);
}

// torch chooses among the convolutions of the devices that it knows; for any other it asks here.
Tensor convolution(
    const Tensor& x, const Tensor& weight, const std::optional<Tensor>& bias, IntArrayRef stride, IntArrayRef padding,
    IntArrayRef dilation, bool transposed, IntArrayRef output_padding, int64_t groups) {
  ++*operators;
  return as_ours(at::convolution(
      as_cpu(x), as_cpu(weight), as_cpu(bias), stride, padding, dilation, transposed, output_padding, groups));
}

std::tuple<Tensor, Tensor, Tensor> convolution_backward(
    const Tensor& gradient, const Tensor& x, const Tensor& weight, IntArrayRef stride, IntArrayRef padding,
    IntArrayRef dilation, bool transposed, IntArrayRef output_padding, int64_t groups, std::array<bool, 3> wanted) {
  ++*operators;
  const int64_t biases[] = {transposed ? weight.size(1) * groups : weight.size(0)};
  auto [of_x, of_weight, of_bias] = at::convolution_backward(
      as_cpu(gradient), as_cpu(x), as_cpu(weight), IntArrayRef(biases), stride, padding, dilation, transposed,
      output_padding, groups, wanted);
  return {as_ours(of_x), as_ours(of_weight), as_ours(of_bias)};
}

// One cell of an LSTM: torch gives this backend the kernel of CUDA, which a CPU lacks. The workspace keeps the four gates.
std::tuple<Tensor, Tensor, Tensor> lstm_cell(
    const Tensor& from_input, const Tensor& from_hidden, const Tensor& c, const std::optional<Tensor>& bias_input,
    const std::optional<Tensor>& bias_hidden) {
  ++*operators;
  auto sum = as_cpu(from_input) + as_cpu(from_hidden);
  for (const auto* bias : {&bias_input, &bias_hidden})
    if (const auto given = as_cpu(*bias)) sum = sum + *given;
  const auto parts = sum.chunk(4, 1);
  const auto in = parts[0].sigmoid(), forget = parts[1].sigmoid(), cell = parts[2].tanh(), out = parts[3].sigmoid();
  const auto next = forget * as_cpu(c) + in * cell;
  return {as_ours(out * next.tanh()), as_ours(next), as_ours(at::cat({in, forget, cell, out}, 1))};
}

std::tuple<Tensor, Tensor, Tensor> lstm_cell_backward(
    const std::optional<Tensor>& of_h, const std::optional<Tensor>& of_next, const Tensor& c, const Tensor& next,
    const Tensor& workspace, bool has_bias) {
  ++*operators;
  const auto gates = as_cpu(workspace).chunk(4, 1);
  const auto &in = gates[0], &forget = gates[1], &cell = gates[2], &out = gates[3];
  const auto end = as_cpu(next).tanh(), zero = at::zeros_like(end);
  const auto into_h = as_cpu(of_h).value_or(zero);
  const auto into_next = as_cpu(of_next).value_or(zero) + into_h * out * (1 - end * end);
  const auto of_gates = at::cat(
      {into_next * cell * in * (1 - in), into_next * as_cpu(c) * forget * (1 - forget), into_next * in * (1 - cell * cell),
       into_h * end * out * (1 - out)},
      1);
  return {as_ours(of_gates), as_ours(into_next * forget), has_bias ? as_ours(of_gates.sum(0)) : Tensor()};
}

}  // namespace kernels
}  // namespace

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&on_the_cpu>()); }

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", &kernels::empty);
  m.impl("empty_strided", &kernels::empty_strided);
  m.impl("_copy_from", &kernels::copy_from);
  m.impl("_copy_from_and_resize", &kernels::copy_from_and_resize);
  m.impl("_local_scalar_dense", &kernels::local_scalar);
  m.impl("resize_", &kernels::resize);
  m.impl("set_.source_Storage_storage_offset", &kernels::set_storage);
  m.impl("set_.source_Storage", &kernels::set_whole_storage);
  m.impl("set_.source_Tensor", &kernels::set_tensor);
  m.impl("set_", &kernels::set_nothing);
  m.impl("as_strided", &kernels::as_strided);
  m.impl("view", &kernels::view);
  m.impl("_reshape_alias", &kernels::reshape_alias);
  m.impl("unfold", &kernels::unfold);
  m.impl("_efficientzerotensor", &kernels::zero_without_bytes);
  m.impl("convolution_overrideable", &kernels::convolution);
  m.impl("convolution_backward_overrideable", &kernels::convolution_backward);
  m.impl("_thnn_fused_lstm_cell", &kernels::lstm_cell);
  m.impl("_thnn_fused_lstm_cell_backward_impl", &kernels::lstm_cell_backward);
}

// torch composes mm of a device that has no kernel for it (mm.out of an empty result); a GPU has one, like the CPU. So
// whatever is a kernel there is one here, and a GPU's operators are the ones that run, are counted and are profiled. And
// gloo, which takes the tensors of a CUDA device but for send and recv, takes ours as the CPU's.
void take_kernels_of_the_cpu() {
  static torch::Library library(torch::Library::IMPL, "aten", DispatchKey::PrivateUse1, __FILE__, __LINE__);
  static torch::Library collectives(torch::Library::IMPL, "c10d", DispatchKey::PrivateUse1, __FILE__, __LINE__);
  struct Quiet : c10::WarningHandler {  // torch has kernels for c10d here, and would warn that they are replaced
    void process(const c10::Warning&) override {}
  } quiet;
  const c10::WarningUtils::WarningHandlerGuard guard(&quiet);
  for (const auto& name : c10::Dispatcher::singleton().getAllOpNames()) {
    const auto op = c10::Dispatcher::singleton().findOp(name);
    if (!op || !op->hasKernelForDispatchKey(DispatchKey::CPU)) continue;
    const auto kernel = [] { return torch::CppFunction::makeFromBoxedFunction<&on_the_cpu>(); };
    if (name.getNamespace() == "aten" && !op->hasKernelForDispatchKey(DispatchKey::PrivateUse1))
      library.impl(toString(name).c_str(), kernel());
    else if (name.getNamespace() == "c10d")
      collectives.impl(
          toString(name).c_str(), HOST_ONLY.count(name.name) ? torch::CppFunction::makeFromBoxedFunction<&refuse>() : kernel());
  }
}

// ---- autocast: the lists of CUDA ------------------------------------------------------------------------------------

namespace at::autocast {

TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m) { m.fallback(torch::CppFunction::makeFallthrough()); }

TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, m) {
#define LOWER(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, lower_precision_fp)
#define FP32(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32)
#define FP32_IF_UNSAID(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32_set_opt_dtype)
#define WIDEST(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, promote)
  AT_FORALL_LOWER_PRECISION_FP(LOWER)
  AT_FORALL_FP32(FP32)
  AT_FORALL_FP32_SET_OPT_DTYPE(FP32_IF_UNSAID)
  AT_FORALL_PROMOTE(WIDEST)
}

}  // namespace at::autocast

// ---- what Python may call -------------------------------------------------------------------------------------------

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("install", [] {
    static Hooks hooks;
    take_kernels_of_the_cpu();
    at::RegisterPrivateUse1HooksInterface(&hooks);
  });
  m.def("default_generator", [] { return default_generator(); });
  m.def("operators", [] { return operators->load(); });
  m.def("share_count", &share_count);
  m.def("used", [] { return used.load(); });
}
