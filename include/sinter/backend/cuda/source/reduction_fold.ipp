// The lines.
#pragma once

#include <sinter/backend/cuda/source/reduction_fold.hpp>

#include <sinter/backend/cuda/source/scalar.hpp>
#include <sinter/base/index.hpp>

#include <algorithm>
#include <array>

SINTER_NAMESPACE_BEGIN
namespace cuda_source_detail {

SINTER_DECL FoldText::FoldText(Writer& writer, const ThreadShape& the_shape, InstId id)
    : w(writer), shape(the_shape), id_(id), fold_(writer.bound.kernel.folds[writer.bound.inst(id).access]) {}

SINTER_DECL std::string FoldText::sum(std::size_t number) const {
  return "sum" + str(id_) + "_" + std::to_string(number);
}
SINTER_DECL std::vector<std::string> FoldText::sums(const std::string& place) const {
  std::vector<std::string> names;
  for (std::size_t n = 0; n < numbers(); ++n) names.push_back(sum(n) + place);
  return names;
}
SINTER_DECL std::string FoldText::neutral(std::size_t number) const {
  return literal({.dtype = dtype(number), .bits = fold_.states[number].bits});
}

/// Lines that compute a program's values; the names of its results.
SINTER_DECL std::vector<std::string> FoldText::values_of(const ScalarProgram& program,
                                                         const std::vector<std::string>& arguments) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < program.body.size(); ++i) {
    const Inst& inst = program.body[i];
    if (inst.prim == Prim::argument || inst.prim == Prim::immediate) {
      names.push_back(inst.prim == Prim::argument ? arguments[inst.bits] : literal(inst));
      continue;
    }
    std::array<std::string, 3> in;
    for (int k = 0; k < arity(inst.prim); ++k) in[as_index(k)] = names[inst.args[as_index(k)]];
    names.push_back("f" + std::to_string(i));
    w.line("const " + value_type(inst.dtype) + " " + names.back() + " = " +
           expression(inst, program.body[inst.args[0]].dtype, in) + ";");
  }
  std::vector<std::string> results;
  for (const InstId result : program.results) results.push_back(names[result]);
  return results;
}

/// targets = program(arguments). Targets may be among the arguments.
SINTER_DECL void FoldText::run(const ScalarProgram& program, const std::vector<std::string>& arguments,
                               const std::vector<std::string>& targets) {
  w.open("");
  const std::vector<std::string> results = values_of(program, arguments);
  for (std::size_t n = 0; n < targets.size(); ++n)
    w.line("const " + type(n) + " next" + std::to_string(n) + " = " + results[n] + ";");
  for (std::size_t n = 0; n < targets.size(); ++n) w.line(targets[n] + " = next" + std::to_string(n) + ";");
  w.close();
}

SINTER_DECL void FoldText::declare(bool is_array) {
  for (std::size_t n = 0; n < numbers(); ++n) {
    if (!is_array) {
      w.line(type(n) + " " + sum(n) + " = " + neutral(n) + ";");
      continue;
    }
    w.line(type(n) + " " + sum(n) + "[" + str(shape.width) + "];");
    w.line("#pragma unroll");
    w.line("for (int j = 0; j < " + str(shape.width) + "; ++j) " + sum(n) + "[j] = " + neutral(n) + ";");
  }
}

SINTER_DECL void FoldText::feed(const std::string& place) {
  std::vector<std::string> arguments = sums(place);
  for (std::size_t k = 0; k < fold_.arguments.size(); ++k) arguments.push_back(w.name[w.bound.inst(id_).args[k]]);
  run(fold_.step, arguments, sums(place));
}

SINTER_DECL void FoldText::merge(const std::vector<std::string>& older, const std::vector<std::string>& newer,
                                 const std::vector<std::string>& to) {
  std::vector<std::string> arguments = older;
  arguments.insert(arguments.end(), newer.begin(), newer.end());
  run(fold_.merge, arguments, to);
}

/// The lower thread of two has the older state, so that both compute the same.
SINTER_DECL void FoldText::shuffle(const std::vector<std::string>& state, int lanes, bool is_rolled) {
  const std::string loop = "for (int m = " + str(lanes / 2) + "; m > 0; m /= 2)";
  if (is_rolled) w.line("#pragma unroll 1");
  if (is_rolled) w.open(loop);
  else w.unroll(loop);
  w.line("const bool is_older = ((int)threadIdx.x & m) == 0;");
  std::vector<std::string> older, newer;
  for (std::size_t n = 0; n < numbers(); ++n) {
    const std::string number = std::to_string(n);
    w.line("const " + type(n) + " other" + number + " = __shfl_xor_sync(0xffffffffu, " + state[n] + ", m);");
    w.line("const " + type(n) + " a" + number + " = is_older ? " + state[n] + " : other" + number + ";");
    w.line("const " + type(n) + " b" + number + " = is_older ? other" + number + " : " + state[n] + ";");
    older.push_back("a" + number);
    newer.push_back("b" + number);
  }
  merge(older, newer, state);
  w.close();
}

SINTER_DECL void FoldText::put_row_together(bool is_rolled) {
  const int lanes = shape.lanes / shape.cluster;  // of a block
  if (lanes > 1) shuffle(sums(""), std::min(lanes, 32), is_rolled);
  if (lanes <= 32) return;
  const std::string warps = str(lanes / 32), first = "if (threadIdx.x % 32 == 0) ";
  for (std::size_t n = 0; n < numbers(); ++n) {
    const std::string shared = "shared" + str(id_) + "_" + std::to_string(n);
    w.line("__shared__ " + type(n) + " " + shared + "[" + str(shape.threads() / 32) + "];");
    w.line(first + shared + "[threadIdx.x / 32] = " + sum(n) + ";");
  }
  w.line("__syncthreads();");
  for (std::size_t n = 0; n < numbers(); ++n)
    w.line(sum(n) + " = shared" + str(id_) + "_" + std::to_string(n) + "[group * " + warps + " + (int)(threadIdx.x % " +
           warps + ")];");
  shuffle(sums(""), lanes / 32, is_rolled);
  if (shape.cluster > 1) put_cluster_together(is_rolled);
}

/// Each block has the states of all blocks, and merges them in their order.
SINTER_DECL void FoldText::put_cluster_together(bool is_rolled) {
  const std::string blocks = str(shape.cluster);
  const auto met = [&](std::size_t n) { return "met" + str(id_) + "_" + std::to_string(n); };
  for (std::size_t n = 0; n < numbers(); ++n) w.line("__shared__ " + type(n) + " " + met(n) + "[" + blocks + "];");
  w.open("if (threadIdx.x < " + blocks + ")");
  for (std::size_t n = 0; n < numbers(); ++n)
    w.line("put_in_block((int)threadIdx.x, " + met(n) + " + rank, " + sum(n) + ");");
  w.close();
  w.line("cluster_arrive();");
  w.line("cluster_wait();");
  for (std::size_t n = 0; n < numbers(); ++n) w.line(sum(n) + " = " + met(n) + "[threadIdx.x % " + blocks + "];");
  shuffle(sums(""), shape.cluster, is_rolled);
}

/// Element j of a thread's state number n lies in scratch at (n * width + j) * threads, in units of eight bytes.
SINTER_DECL void FoldText::put_columns_together() {
  if (shape.lanes == 1) return;
  const std::string threads = str(shape.threads()), width = str(shape.width), groups = str(shape.groups);
  const std::string name = "states" + str(id_);
  w.line("__shared__ __align__(16) unsigned char " + name + "[" +
         str(shape.threads() * shape.width * 8 * static_cast<int>(numbers())) + "];");
  const auto place = [&](std::size_t n, const std::string& thread) {
    return "*(" + type(n) + "*)(" + name + " + 8 * ((" + std::to_string(n) + " * " + width + " + j) * " + threads +
           " + " + thread + "))";
  };
  const auto each_number = [&](const std::string& thread) {
    std::vector<std::string> names;
    for (std::size_t n = 0; n < numbers(); ++n) names.push_back(place(n, thread));
    return names;
  };
  const std::string each = "for (int j = 0; j < " + width + "; ++j) ", own = "(int)threadIdx.x";
  for (std::size_t n = 0; n < numbers(); ++n) {
    w.line("#pragma unroll");
    w.line(each + place(n, own) + " = " + sum(n) + "[j];");
  }
  w.line("#pragma unroll 1");
  w.open("for (int half = " + str(shape.lanes / 2) + "; half > 0; half /= 2)");
  w.line("__syncthreads();");
  w.open("if (lane < half)");
  w.open("for (int j = 0; j < " + width + "; ++j)");
  merge(each_number(own), each_number("((int)threadIdx.x + half * " + groups + ")"), each_number(own));
  w.close();
  w.close();
  w.close();
  w.line("__syncthreads();");
  for (std::size_t n = 0; n < numbers(); ++n) {
    w.line("#pragma unroll");
    w.line(each + sum(n) + "[j] = " + place(n, "group") + ";");
  }
}

SINTER_DECL void FoldText::declare_result(InstId result, bool is_array) {
  const Inst& inst = w.bound.inst(result);
  const std::string v = "v" + str(result);
  w.line(w.declaration(result) + (is_array ? "[" + str(shape.width) + "];" : ";"));
  if (is_array) w.unroll("for (int j = 0; j < " + str(shape.width) + "; ++j)");
  else w.open("");
  const std::string found = values_of(fold_.finish, sums(is_array ? "[j]" : ""))[inst.bits];
  w.line(v + (is_array ? "[j] = " : " = ") + found + ";");
  w.close();
}

SINTER_DECL std::int64_t FoldText::partial_bytes(std::int64_t pieces) const {
  return static_cast<std::int64_t>(numbers()) * (quotient_up(pieces * 8, 256) * 256);
}
SINTER_DECL std::string FoldText::partials(std::size_t number, std::int64_t place) {
  const std::string name = "w" + str(id_) + "_" + std::to_string(number);
  return "((" + type(number) + "*)(a.workspace + " + w.number(name, place) + "))";
}

SINTER_DECL void FoldText::write_partial(std::int64_t place, std::int64_t outputs) {
  const std::int64_t step = partial_bytes(shape.splits * outputs) / static_cast<std::int64_t>(numbers());
  const std::string row = "[(I)blockIdx.y * " + w.number("outputs", outputs) + " + item";
  w.open("if (lane == 0 && is_live)");
  for (std::size_t n = 0; n < numbers(); ++n, place += step) {
    if (!shape.is_column) {
      w.line(partials(n, place) + row + "] = " + sum(n) + ";");
      continue;
    }
    const std::string width = str(shape.width);
    w.line("#pragma unroll");
    w.line("for (int j = 0; j < " + width + "; ++j) " + partials(n, place) + row + " * " + width + " + j] = " + sum(n) +
           "[j];");
  }
  w.close();
}

SINTER_DECL void FoldText::read_partials(std::int64_t place, std::int64_t outputs, int lanes) {
  const std::int64_t step = partial_bytes(shape.splits * outputs) / static_cast<std::int64_t>(numbers());
  declare(false);
  const std::string splits = w.number("splits", shape.splits), outputs_text = w.number("outputs", outputs);
  w.open("for (I s = lane; s < " + splits + "; s += " + str(lanes) + ")");
  std::vector<std::string> newer;
  for (std::size_t n = 0; n < numbers(); ++n, place += step) {
    newer.push_back("piece" + std::to_string(n));
    w.line("const " + type(n) + " " + newer.back() + " = " + partials(n, place) + "[s * " + outputs_text + " + item];");
  }
  merge(sums(""), newer, sums(""));
  w.close();
  if (lanes > 1) shuffle(sums(""), lanes, true);
}

}  // namespace cuda_source_detail
SINTER_NAMESPACE_END
