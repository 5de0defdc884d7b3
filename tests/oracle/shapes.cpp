// Arrangements of elements, joins and parts, matrices by their diagonals, padding and indexing by slices, by name.
#include "functions.hpp"

namespace sinter_test {
namespace {

std::vector<Dim> dims(const Args& a, std::string_view name) {
  std::vector<Dim> list;
  for (const std::int64_t dim : a.at.list(name)) list.emplace_back(dim);
  return list;
}

Tensor indexed(const Args& a) {
  const auto starts = a.at.list("starts"), stops = a.at.list("stops"), steps = a.at.list("steps");
  std::vector<Index> positions;
  for (std::size_t i = 0; i < starts.size(); ++i) positions.emplace_back(slice(starts[i], stops[i], steps[i]));
  return index(a[0], positions);
}

Tensor padded(const Args& a) {
  const auto low = a.at.axes("low"), high = a.at.axes("high");
  std::vector<std::pair<int, int>> widths;
  for (std::size_t i = 0; i < low.size(); ++i) widths.emplace_back(low[i], high[i]);
  const std::string mode = a.at.word("mode");
  if (mode == "constant") return pad(a[0], widths, a.at.number("value"));
  return pad(a[0], widths,
             mode == "reflect"     ? PadMode::reflect
             : mode == "replicate" ? PadMode::replicate
                                   : PadMode::circular);
}

NamedFunctions axis_functions() {
  return {
      {"reshape", [](const Args& a) -> Tensor { return reshape(a[0], a.at.shape("shape")); }},
      {"permute", [](const Args& a) -> Tensor { return permute(a[0], a.at.axes("order")); }},
      {"transpose", [](const Args& a) -> Tensor { return transpose(a[0], a.at.axis("a"), a.at.axis("b")); }},
      {"expand", [](const Args& a) -> Tensor { return expand(a[0], a.at.shape("shape")); }},
      {"unsqueeze", [](const Args& a) -> Tensor { return unsqueeze(a[0], a.at.axis("axis")); }},
      {"squeeze", [](const Args& a) -> Tensor { return squeeze(a[0], a.at.axes("axes")); }},
      {"flatten", [](const Args& a) -> Tensor { return flatten(a[0], a.at.axis("first"), a.at.axis("last")); }},
      {"ravel", [](const Args& a) -> Tensor { return ravel(a[0]); }},
      {"unflatten", [](const Args& a) -> Tensor { return unflatten(a[0], a.at.axis("axis"), a.at.shape("shape")); }},
      {"movedim", [](const Args& a) -> Tensor { return movedim(a[0], a.at.axes("from"), a.at.axes("to")); }},
      {"atleast_1d", [](const Args& a) -> Tensor { return atleast_1d(a[0]); }},
      {"atleast_2d", [](const Args& a) -> Tensor { return atleast_2d(a[0]); }},
      {"atleast_3d", [](const Args& a) -> Tensor { return atleast_3d(a[0]); }},
      {"broadcast_to", [](const Args& a) -> Tensor { return broadcast_to(a[0], a.at.shape("shape")); }},
      {"expand_as", [](const Args& a) -> Tensor { return expand_as(a[0], a[1]); }},
      {"reshape_as", [](const Args& a) -> Tensor { return reshape_as(a[0], a[1]); }},
      {"broadcast_tensors", [](const Args& a) -> Tensors { return broadcast_tensors(a.inputs); }},
      {"narrow",
       [](const Args& a) -> Tensor {
         return narrow(a[0], a.at.axis("axis"), a.at.whole("start"), a.at.whole("length"));
       }},
      {"select", [](const Args& a) -> Tensor { return select(a[0], a.at.axis("axis"), a.at.whole("index")); }},
      {"unfold along an axis",
       [](const Args& a) -> Tensor { return unfold(a[0], a.at.axis("axis"), a.at.whole("size"), a.at.whole("step")); }},
      {"sum_to_size", [](const Args& a) -> Tensor { return sum_to_size(a[0], a.at.shape("shape")); }},
      {"as_strided",
       [](const Args& a) -> Tensor {
         return as_strided(a[0], a.at.shape("shape"), a.at.list("strides"), a.at.whole("offset"));
       }},
      {"flip", [](const Args& a) -> Tensor { return flip(a[0], a.at.axes("axes")); }},
      {"fliplr", [](const Args& a) -> Tensor { return fliplr(a[0]); }},
      {"flipud", [](const Args& a) -> Tensor { return flipud(a[0]); }},
      {"rot90", [](const Args& a) -> Tensor { return rot90(a[0], a.at.axis("times"), a.at.axes("plane")); }},
      {"repeat", [](const Args& a) -> Tensor { return repeat(a[0], a.at.list("counts")); }},
      {"tile", [](const Args& a) -> Tensor { return tile(a[0], a.at.list("counts")); }},
      {"repeat_interleave",
       [](const Args& a) -> Tensor { return repeat_interleave(a[0], a.at.whole("count"), a.at.axis("axis")); }},
      {"repeat_interleave of all",
       [](const Args& a) -> Tensor { return repeat_interleave(a[0], a.at.whole("count")); }},
      {"repeat_interleave by counts",
       [](const Args& a) -> Tensor {
         const std::optional<Dim> size = a.size ? std::optional<Dim>(a.at.whole("total")) : std::nullopt;
         return repeat_interleave(a[0], a[1], a.at.axis("axis"), {.size = size});
       }},
      {"repeat_interleave of all by counts",
       [](const Args& a) -> Tensor { return repeat_interleave(a[0], a[1], {.size = a.size}); }},
      {"roll",
       [](const Args& a) -> Tensor {
         return roll(a[0], std::span<const std::int64_t>(a.at.list("shifts")), std::span<const int>(a.at.axes("axes")));
       }},
      {"pad", padded},
      {"index by slices", indexed},
      {"zeros_like", [](const Args& a) -> Tensor { return zeros_like(a[0]); }},
      {"ones_like", [](const Args& a) -> Tensor { return ones_like(a[0]); }},
      {"full_like", [](const Args& a) -> Tensor { return full_like(a[0], a.at.whole("value")); }},
  };
}

NamedFunctions part_functions() {
  return {
      {"concat", [](const Args& a) -> Tensor { return concat(a.inputs, a.at.axis("axis")); }},
      {"stack", [](const Args& a) -> Tensor { return stack(a.inputs, a.at.axis("axis")); }},
      {"split", [](const Args& a) -> Tensors { return split(a[0], a.at.axis("parts"), a.at.axis("axis")); }},
      {"chunk", [](const Args& a) -> Tensors { return chunk(a[0], a.at.axis("parts"), a.at.axis("axis")); }},
      {"split_with_sizes",
       [](const Args& a) -> Tensors { return split_with_sizes(a[0], a.at.list("sizes"), a.at.axis("axis")); }},
      {"tensor_split",
       [](const Args& a) -> Tensors { return tensor_split(a[0], a.at.axis("parts"), a.at.axis("axis")); }},
      {"tensor_split at",
       [](const Args& a) -> Tensors {
         const std::vector<Dim> at = dims(a, "positions");
         return tensor_split(a[0], {at.at(0), at.at(1)}, a.at.axis("axis"));
       }},
      {"unbind", [](const Args& a) -> Tensors { return unbind(a[0], a.at.axis("axis")); }},
      {"hsplit", [](const Args& a) -> Tensors { return hsplit(a[0], a.at.axis("parts")); }},
      {"vsplit", [](const Args& a) -> Tensors { return vsplit(a[0], a.at.axis("parts")); }},
      {"dsplit", [](const Args& a) -> Tensors { return dsplit(a[0], a.at.axis("parts")); }},
      {"hstack", [](const Args& a) -> Tensor { return hstack(a.inputs); }},
      {"vstack", [](const Args& a) -> Tensor { return vstack(a.inputs); }},
      {"dstack", [](const Args& a) -> Tensor { return dstack(a.inputs); }},
      {"column_stack", [](const Args& a) -> Tensor { return column_stack(a.inputs); }},
      {"block_diag", [](const Args& a) -> Tensor { return block_diag(a.inputs); }},
      {"cartesian_prod", [](const Args& a) -> Tensor { return cartesian_prod(a.inputs); }},
      {"combinations",
       [](const Args& a) -> Tensor {
         return combinations(a[0], a.at.axis("count"), {.with_replacement = a.at.is("again")});
       }},
      {"meshgrid",
       [](const Args& a) -> Tensors {
         return meshgrid(a.inputs, a.at.word("indexing") == "ij" ? GridIndexing::ij : GridIndexing::xy);
       }},
  };
}

NamedFunctions matrix_functions() {
  return {
      {"diagonal",
       [](const Args& a) -> Tensor { return diagonal(a[0], a.at.axis("offset"), a.at.axis("a"), a.at.axis("b")); }},
      {"tril", [](const Args& a) -> Tensor { return tril(a[0], a.at.axis("k")); }},
      {"triu", [](const Args& a) -> Tensor { return triu(a[0], a.at.axis("k")); }},
      {"diag", [](const Args& a) -> Tensor { return diag(a[0], a.at.axis("k")); }},
      {"diagflat", [](const Args& a) -> Tensor { return diagflat(a[0], a.at.axis("k")); }},
      {"diag_embed",
       [](const Args& a) -> Tensor { return diag_embed(a[0], a.at.axis("k"), a.at.axis("a"), a.at.axis("b")); }},
      {"trace", [](const Args& a) -> Tensor { return trace(a[0], a.at.axis("k")); }},
      {"vander",
       [](const Args& a) -> Tensor {
         return vander(a[0], a.at.axis("n"), a.at.is("increasing") ? PowerOrder::increasing : PowerOrder::decreasing);
       }},
  };
}

}  // namespace

NamedFunctions shapes_functions() {
  return joined({axis_functions(), part_functions(), matrix_functions(), creation_functions()});
}

}  // namespace sinter_test
