// compile_loop: code from the cache, or else plan, generate, allocate, encode, store; publish.
#pragma once

#include <sinter/backend/x86/nest/loop.hpp>

#include <sinter/backend/x86/machine/code_memory.hpp>
#include <sinter/backend/x86/machine/emitter.hpp>
#include <sinter/backend/x86/machine/lower.hpp>
#include <sinter/backend/x86/machine/stored_code.hpp>
#include <sinter/backend/x86/nest/generator.hpp>
#include <sinter/backend/x86/nest/prepare.hpp>
#include <sinter/base/fork.hpp>
#include <sinter/base/index.hpp>
#include <sinter/kernel/kernel_key.hpp>
#include <sinter/kernel/loop_nest/text.hpp>

#include <algorithm>
#include <bit>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

SINTER_NAMESPACE_BEGIN
namespace x86 {

namespace x86_detail {

inline std::size_t generate_part(const PreparedNest& nest, LoopPart part, std::vector<std::byte>& bytes,
                                 std::string* listing) {
  CodeStream stream = LoopGenerator(nest, part).run();
  return encode(stream, allocate_registers(stream), bytes, listing);
}

/// Each line behind a semicolon, as in the listing of code that follows.
inline std::string as_comment(std::string_view text) {
  std::string lines;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    lines += "; ";
    lines += text.substr(begin, end - begin);
    lines += '\n';
    begin = end + 1;
  }
  return lines;
}

/// What the code of a part follows from, together with the build.
inline std::string loop_key(const Kernel& kernel, const Interleaved& interleaved, const Schedule& schedule, Isa isa,
                            IndexWidth width, LoopPart part) {
  KeyWriter key;
  key.add('l').add(isa).add(width).add(part).add(schedule).add(kernel);
  if (interleaved.is_empty()) return std::move(key).bytes();
  key.add_list(interleaved.groups, [&](const Interleaved::Group& group) {
    key.add(group.lowest).add(group.pitch).add(group.span).add(group.places).add(group.is_stored);
  });
  key.add_list(interleaved.members,
               [&](const Interleaved::Member& member) { key.add(member.group).add(member.place); });
  return std::move(key).bytes();
}

/// Pieces of rows have accesses of their own; they are read one by one.
inline std::optional<PreparedNest> prepare_interleaved(const Kernel& kernel, const Interleaved& interleaved,
                                                       const Schedule& schedule, Isa isa, IndexWidth width,
                                                       std::string& why) {
  std::optional<PreparedNest> nest = prepare_nest(kernel, schedule, isa, width, why);
  if (nest && nest->pieces == nullptr) nest->interleaved = interleaved;
  return nest;
}

class CompiledLoop final : public LoopCode {
 public:
  CompiledLoop(const Kernel& kernel, const Interleaved& interleaved, const Schedule& schedule, const PreparedNest& nest,
               std::string_view key)
      : kernel_(kernel), interleaved_(interleaved), schedule_(schedule), isa_(nest.isa) {
    std::vector<std::byte> bytes;
    bytes.reserve(8192);
    const std::size_t whole = generate_part(nest, LoopPart::whole, bytes, nullptr);
    std::size_t blocks = 0, finish = 0;
    const bool splits = nest.nest.has(VariantKind::split);
    if (splits) {
      blocks = generate_part(nest, LoopPart::blocks, bytes, nullptr);
      finish = generate_part(nest, LoopPart::finish, bytes, nullptr);
    }
    if (nest.nest.has(VariantKind::short_rows)) short_columns_ = nest.nest.lanes;
    has_narrow_index_ = nest.nest.narrow_index;
    tiles_ = nest.tiles;
    estimate(nest);
    publish(bytes, whole, blocks, finish);
    store_code(key,
               {whole, blocks, finish, as_index(short_columns_), as_index(has_narrow_index_), as_index(tiles_),
                as_index(reductions_), std::bit_cast<std::uint64_t>(nanoseconds_per_element_)},
               bytes);
  }
  static constexpr std::size_t stored_numbers = 8;
  /// The same from what was stored.
  CompiledLoop(const Kernel& kernel, const Interleaved& interleaved, const Schedule& schedule, Isa isa,
               const StoredCode& stored)
      : kernel_(kernel), interleaved_(interleaved), schedule_(schedule), isa_(isa) {
    short_columns_ = static_cast<int>(stored.number(3));
    has_narrow_index_ = stored.number(4) != 0;
    tiles_ = static_cast<int>(stored.number(5));
    reductions_ = static_cast<int>(stored.number(6));
    nanoseconds_per_element_ = std::bit_cast<double>(stored.number(7));
    publish(stored.code(), stored.number(0), stored.number(1), stored.number(2));
  }

  LoopFunction streaming() const override {
    if (kernel_.kind != KernelKind::pointwise && kernel_.kind != KernelKind::row) return nullptr;
    return later(streaming_, LoopPart::streaming, "sinter_streaming_loop");
  }
  LoopFunction streaming_new(std::uint64_t& results) const override {
    results = kernel_.kind == KernelKind::pointwise ? results_of_last_access(kernel_) : 0;
    return results == 0 ? nullptr : later(streaming_new_, LoopPart::streaming_new, "sinter_streaming_new");
  }
  LoopFunction short_rows() const override {
    return short_columns_ == 0 ? nullptr : later(short_rows_, LoopPart::short_rows, "sinter_short_rows");
  }
  LoopFunction pairs() const override {
    return takes_pairs(kernel_, isa_) ? later(pairs_, LoopPart::pairs, "sinter_pairs_of_rows") : nullptr;
  }
  LoopFunction streaming_pairs() const override {
    if (!takes_pairs(kernel_, isa_)) return nullptr;
    return later(streaming_pairs_, LoopPart::streaming_pairs, "sinter_streaming_pairs");
  }

  std::string listing() const override {
    std::string code, why;
    const std::optional<PreparedNest> nest =
        prepare_interleaved(kernel_, interleaved_, schedule_, isa_, index_width(), why);
    if (!nest) return {};
    std::vector<std::byte> bytes;
    generate_part(*nest, LoopPart::whole, bytes, &code);
    return as_comment(text(nest->nest)) + code;
  }

 private:
  /// No blocks: the second and third function begin where the first does.
  void publish(std::span<const std::byte> code, std::size_t whole, std::size_t blocks, std::size_t finish) {
    block_ = publish_code(code, "sinter_loop");
    code_bytes_ = code.size();
    function_ = block_->entry<LoopFunction>(whole);
    if (blocks == whole) return;
    blocks_ = block_->entry<LoopFunction>(blocks);
    finish_ = block_->entry<LoopFunction>(finish);
  }
  struct LaterPart {
    std::once_flag once;
    std::shared_ptr<const CodeBlock> block;
  };
  LoopFunction later(LaterPart& to, LoopPart part, std::string_view name) const {
    const ForkSection section;
    std::call_once(to.once, [&] { to.block = generate_later(part, name); });
    return to.block->entry<LoopFunction>();
  }
  IndexWidth index_width() const { return has_narrow_index_ ? IndexWidth::narrow_if_possible : IndexWidth::wide; }
  std::shared_ptr<const CodeBlock> generate_later(LoopPart part, std::string_view name) const {
    const std::string key = loop_key(kernel_, interleaved_, schedule_, isa_, index_width(), part);
    if (const std::optional<StoredCode> stored = find_stored_code(key, 0)) return publish_code(stored->code(), name);
    std::string why;
    const std::optional<PreparedNest> nest =
        prepare_interleaved(kernel_, interleaved_, schedule_, isa_, index_width(), why);
    std::vector<std::byte> bytes;
    generate_part(*nest, part, bytes, nullptr);
    store_code(key, {}, bytes);
    return publish_code(bytes, name);
  }

  /// What a fold leaves of a block: a number for each reduction, or those of its state.
  int running_values(const LoopNest& nest, const NestNode& fold) const {
    const std::span<const InstId> ids = nest.ids_of(fold);
    std::size_t count = 0;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const Inst& inst = nest.kernel->body[ids[i]];
      if (nest.holder(ids, i) == ids[i])
        count += inst.prim == Prim::fold ? nest.kernel->folds[inst.access].states.size() : 1;
    }
    return static_cast<int>(count);
  }

  /// Running values, and what an element costs: two instructions per cycle at 3 GHz.
  void estimate(const PreparedNest& prepared) {
    const LoopNest& nest = prepared.nest;
    double work = 0;
    std::size_t loop_end = 0;
    const std::size_t first = nest.find(VariantKind::whole);
    const int innermost = prepared.is_column() ? nest.near_axis : nest.vector_axis;
    for (std::size_t n = first; n < nest.nodes[first].end; ++n) {
      const NestNode& node = nest.nodes[n];
      if (node.kind == NestNodeKind::fold && reductions_ == 0) reductions_ = running_values(nest, node);
      if (node.kind == NestNodeKind::loop && nest.loop_of(node).axes == axis_bit(innermost)) {
        work += 2;
        loop_end = node.end;
      }
      if ((node.kind == NestNodeKind::compute || node.kind == NestNodeKind::step) && n < loop_end)
        for (const InstId id : nest.ids_of(node))
          work += nest.places[id].is_vector && !is_reduction(nest.kernel->body[id].prim)
                      ? cost_of(nest.kernel->body[id].prim)
                      : 0;
    }
    nanoseconds_per_element_ = work / nest.lanes / 6;
  }

  Kernel kernel_;
  Interleaved interleaved_;
  Schedule schedule_;
  Isa isa_;
  std::shared_ptr<const CodeBlock> block_;
  mutable LaterPart streaming_, streaming_new_, short_rows_, pairs_, streaming_pairs_;
};

}  // namespace x86_detail

SINTER_DECL Streaming streaming_of(const Schedule& schedule) {
  const auto streams = schedule.find(ScheduleAction::stream);
  return !streams ? Streaming::by_size : *streams == 0 ? Streaming::never : Streaming::always;
}

namespace x86_detail {

inline std::shared_ptr<const LoopCode> compile_for(const Kernel& kernel, const Interleaved& interleaved,
                                                   const Schedule& schedule, Isa isa, IndexWidth width,
                                                   std::string* why_declined) {
  const std::string key = loop_key(kernel, interleaved, schedule, isa, width, LoopPart::whole);
  const std::optional<StoredCode> stored = find_stored_code(key, CompiledLoop::stored_numbers);
  const auto is_inside = [&](std::size_t i) { return stored->number(i) < stored->code().size(); };
  if (stored && is_inside(0) && is_inside(1) && is_inside(2))
    return std::make_shared<CompiledLoop>(kernel, interleaved, schedule, isa, *stored);
  std::string why;
  const std::optional<PreparedNest> nest = prepare_interleaved(kernel, interleaved, schedule, isa, width, why);
  if (!nest) {
    if (why_declined != nullptr) *why_declined = "x86: " + why;
    return nullptr;
  }
  return std::make_shared<CompiledLoop>(kernel, interleaved, schedule, *nest, key);
}

}  // namespace x86_detail

SINTER_DECL std::shared_ptr<const LoopCode> compile_loop(const Kernel& kernel, const Schedule& schedule, Isa isa,
                                                         IndexWidth width, std::string* why_declined) {
  return x86_detail::compile_for(kernel, Interleaved{}, schedule, isa, width, why_declined);
}
SINTER_DECL std::shared_ptr<const LoopCode> compile_interleaved(const Kernel& kernel, const Interleaved& interleaved,
                                                                const Schedule& schedule, Isa isa, IndexWidth width) {
  return x86_detail::compile_for(kernel, interleaved, schedule, isa, width, nullptr);
}
SINTER_DECL std::shared_ptr<const LoopCode> compile_loop(const Kernel& kernel, const Schedule& schedule, Isa isa,
                                                         std::string* why_declined) {
  return compile_loop(kernel, schedule, isa, IndexWidth::wide, why_declined);
}

SINTER_DECL std::int64_t offset_bytes(const Kernel& kernel, const BoundGeometry& geometry, std::size_t access) {
  return geometry.accesses[access].offset * size_of(kernel.operands[kernel.accesses[access].operand].dtype);
}

SINTER_DECL void fill_loop_args(LoopArgs& args, const Kernel& kernel, const BoundGeometry& geometry, int outer_axis) {
  const int column = kernel.rank() - 1;
  int near = -1, far = -1;
  for (int a = 0; a < column; ++a)
    if (kernel.is_reduced(a)) far = near, near = a;
  auto extent = [&](int axis) { return axis < 0 ? std::int64_t{1} : geometry.extent[as_index(axis)]; };
  args.columns = extent(column);
  args.reduced = extent(near);
  args.far = extent(far);
  for (std::size_t a = 0; a < max_axes; ++a)
    args.index_origin[a] = 0, args.index_step[a] = static_cast<int>(a) == outer_axis;
  for (std::size_t i = 0; i < kernel.accesses.size(); ++i) {
    const std::int64_t size = size_of(kernel.operands[kernel.accesses[i].operand].dtype);
    const auto& numbers = geometry.accesses[i];
    auto stride = [&](int axis) { return axis < 0 ? std::int64_t{0} : numbers.stride[as_index(axis)] * size; };
    LoopArgs::Pointer& p = args.pointer[i];
    p.outer_stride = stride(outer_axis);
    p.reduced_stride = stride(near);
    p.far_stride = stride(far);
    p.column_stride = stride(column);
    p.gather_stride = numbers.gather_stride * size;
    p.gather_extent = numbers.gather_extent;
  }
}

}  // namespace x86
SINTER_NAMESPACE_END
