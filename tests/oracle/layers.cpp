// Layers as functions, by name.
#include "functions.hpp"

namespace sinter_test {
namespace {

std::optional<Tensor> given(const Args& a, std::size_t i) {
  return a.has(i) ? std::optional<Tensor>(a[i]) : std::nullopt;
}
ChannelNormOptions channel_options(const Args& a, std::size_t weight) {
  return {.weight = given(a, weight), .bias = given(a, weight + 1), .eps = a.at.number("eps")};
}

ConvOptions conv_options(const Args& a) {
  return {.stride = a.at.whole("stride"),
          .padding = a.at.whole("padding"),
          .dilation = a.at.whole("dilation"),
          .groups = a.at.whole("groups"),
          .bias = given(a, 2)};
}
/// With a number for each axis; no padding stands for `same`.
ConvOptions conv_options_per_axis(const Args& a) {
  return {.stride = a.at.list("stride"),
          .padding = a.at.has("padding") ? ConvPadding(a.at.list("padding")) : ConvPadding(ConvPadding::same),
          .dilation = a.at.list("dilation"),
          .groups = a.at.whole("groups"),
          .bias = given(a, 2)};
}
ConvTransposeOptions transposed_options(const Args& a) {
  return {.stride = a.at.whole("stride"),
          .padding = a.at.whole("padding"),
          .output_padding = a.at.whole("output_padding"),
          .dilation = a.at.whole("dilation"),
          .groups = a.at.whole("groups"),
          .bias = given(a, 2)};
}
template <int N>
MaxPoolOptions<N> max_options(const Args& a) {
  return {.size = a.at.whole("size"),
          .stride = a.at.whole("stride"),
          .padding = a.at.whole("padding"),
          .dilation = a.at.whole("dilation"),
          .ceil_mode = a.at.is("ceil")};
}
template <int N>
MaxUnpoolOptions<N> unpool_options(const Args& a) {
  return {.size = a.at.whole("size"), .stride = a.at.whole("stride")};
}
template <int N>
FractionalMaxPoolOptions<N> fractional_options(const Args& a) {
  return {.size = a.at.whole("size"), .extent = a.at.whole("extent")};
}
Tensors both(const Ordered& found) { return {found.values, found.indices}; }
template <int N>
AvgPoolOptions<N> avg_options(const Args& a) {
  return {.size = a.at.whole("size"),
          .stride = a.at.whole("stride"),
          .padding = a.at.whole("padding"),
          .ceil_mode = a.at.is("ceil"),
          .count_include_pad = a.at.is("count")};
}
UnfoldOptions unfold_options(const Args& a) {
  return {.dilation = a.at.whole("dilation"), .padding = a.at.whole("padding"), .stride = a.at.whole("stride")};
}

AttentionOptions attention_options(const Args& a) {
  const std::string causal = a.at.word("causal");
  return {.causal = causal == "to_end" ? Causal(Causal::to_end) : Causal(causal == "equal"),
          .mask = given(a, 3),
          .scale = a.at.has("scale") ? std::optional<double>(a.at.number("scale")) : std::nullopt,
          .heads = a.at.is("grouped") ? Heads::grouped : Heads::equal};
}
RotaryOptions rotary_options(const Args& a) {
  return {.layout = a.at.word("how") == "halves" ? RotaryLayout::halves : RotaryLayout::interleaved,
          .features = a.at.whole("features"),
          .base = a.at.number("base"),
          .scale = a.at.number("scale"),
          .offset = a.at.whole("offset")};
}

Align align(const Args& a) { return a.at.is("centres") ? Align::pixel_centres : Align::pixel_corners; }
Tensor interpolated(const Args& a) {
  const std::string mode = a.at.word("mode");
  using I = Interpolation;
  return interpolate(a[0], {.size = a.at.shape("size"),
                            .scale = a.at.numbers("scale"),
                            .mode = mode == "nearest"         ? I::nearest
                                    : mode == "nearest_exact" ? I::nearest_exact
                                    : mode == "linear"        ? I::linear
                                    : mode == "bicubic"       ? I::bicubic
                                                              : I::area,
                            .align = align(a)});
}
Tensor smoothed(const Args& a) {
  return interpolate(a[0], {.size = a.at.shape("size"),
                            .mode = a.at.word("mode") == "linear" ? Interpolation::linear : Interpolation::bicubic,
                            .antialias = true});
}
Tensor sampled(const Args& a) {
  const std::string padding = a.at.word("padding");
  return grid_sample(a[0], a[1],
                     {.mode = a.at.word("mode") == "nearest"   ? Interpolation::nearest
                              : a.at.word("mode") == "bicubic" ? Interpolation::bicubic
                                                               : Interpolation::linear,
                      .padding = padding == "zeros"    ? GridPadding::zeros
                                 : padding == "border" ? GridPadding::border
                                                       : GridPadding::reflection,
                      .align = align(a)});
}

EmbeddingBagOptions bag_options(const Args& a) {
  const std::string mode = a.at.word("mode");
  return {.mode = mode == "sum"    ? BagMode::sum
                  : mode == "mean" ? BagMode::mean
                                   : BagMode::max,
          .weights = given(a, 2),
          .padding_idx = a.at.has("padding") ? std::optional<std::int64_t>(a.at.whole("padding")) : std::nullopt};
}

EmbeddingBagOptions offset_options(const Args& a) {
  EmbeddingBagOptions options = bag_options(a);
  options.offsets = a[2];
  options.weights = given(a, 3);
  options.include_last_offset = a.at.is("last");
  return options;
}
/// Queries, keys and values by their projections, cut into heads.
Tensor multi_head(const Args& a) {
  const auto projected = [&](std::size_t of, std::size_t weight) {
    const Tensor whole = linear(a[of], a[weight], a[weight + 1]);
    const Dim heads = a.at.whole("heads");
    return transpose(unflatten(whole, -1, {heads, whole.shape()[-1] / heads}), 1, 2);
  };
  const Tensor seen = scaled_dot_product_attention(projected(0, 2), projected(1, 4), projected(1, 6));
  return linear(flatten(transpose(seen, 1, 2), 2), a[8], a[9]);
}

NamedFunctions norm_functions() {
  return {
      {"softmax", [](const Args& a) -> Tensor { return softmax(a[0], a.at.axis("axis")); }},
      {"log_softmax", [](const Args& a) -> Tensor { return log_softmax(a[0], a.at.axis("axis")); }},
      {"softmin", [](const Args& a) -> Tensor { return softmin(a[0], a.at.axis("axis")); }},
      {"layer_norm",
       [](const Args& a) -> Tensor {
         return layer_norm(a[0], a.at.shape("shape"), a[1], a[2], {.eps = a.at.number("eps")});
       }},
      {"rms_norm",
       [](const Args& a) -> Tensor {
         return rms_norm(a[0], a.at.shape("shape"), {.weight = given(a, 1), .eps = a.at.number("eps")});
       }},
      {"batch_norm", [](const Args& a) -> Tensor { return batch_norm(a[0], a[1], a[2], channel_options(a, 3)); }},
      {"batch_norm_training",
       [](const Args& a) -> Tensors {
         const BatchNormResult found =
             batch_norm_training(a[0], a[1], a[2], a.at.number("momentum"), channel_options(a, 3));
         return {found.value, found.running_mean, found.running_var};
       }},
      {"instance_norm_training",
       [](const Args& a) -> Tensors {
         const BatchNormResult found =
             instance_norm_training(a[0], a[1], a[2], a.at.number("momentum"), channel_options(a, 3));
         return {found.value, found.running_mean, found.running_var};
       }},
      {"instance_norm", [](const Args& a) -> Tensor { return instance_norm(a[0], channel_options(a, 1)); }},
      {"group_norm",
       [](const Args& a) -> Tensor { return group_norm(a[0], a.at.whole("groups"), channel_options(a, 1)); }},
      {"local_response_norm",
       [](const Args& a) -> Tensor {
         return local_response_norm(
             a[0], a.at.axis("size"),
             {.alpha = a.at.number("alpha"), .beta = a.at.number("beta"), .k = a.at.number("k")});
       }},
      {"embedding",
       [](const Args& a) -> Tensor {
         return a.at.has("padding") ? embedding(a[0], a[1], {.padding_idx = a.at.whole("padding")})
                                    : embedding(a[0], a[1]);
       }},
      {"embedding_bag", [](const Args& a) -> Tensor { return embedding_bag(a[0], a[1], bag_options(a)); }},
      {"embedding_bag of offsets",
       [](const Args& a) -> Tensor { return embedding_bag(a[0], a[1], offset_options(a)); }},
      {"one_hot", [](const Args& a) -> Tensor { return one_hot(a[0], a.at.whole("classes")); }},
      {"scaled_dot_product_attention of heads",
       [](const Args& a) -> Tensor { return scaled_dot_product_attention(a[0], a[1], a[2], attention_options(a)); }},
      {"scaled_dot_product_attention",
       [](const Args& a) -> Tensor { return scaled_dot_product_attention(a[0], a[1], a[2], attention_options(a)); }},
      {"multi-head attention", [](const Args& a) -> Tensor { return multi_head(a); }},
      {"rotary_embedding", [](const Args& a) -> Tensor { return rotary_embedding(a[0], rotary_options(a)); }},
  };
}

NamedFunctions window_functions() {
  return {
      {"conv1d", [](const Args& a) -> Tensor { return conv1d(a[0], a[1], conv_options(a)); }},
      {"conv2d", [](const Args& a) -> Tensor { return conv2d(a[0], a[1], conv_options(a)); }},
      {"conv3d", [](const Args& a) -> Tensor { return conv3d(a[0], a[1], conv_options(a)); }},
      {"conv1d per axis", [](const Args& a) -> Tensor { return conv1d(a[0], a[1], conv_options_per_axis(a)); }},
      {"conv2d per axis", [](const Args& a) -> Tensor { return conv2d(a[0], a[1], conv_options_per_axis(a)); }},
      {"conv3d per axis", [](const Args& a) -> Tensor { return conv3d(a[0], a[1], conv_options_per_axis(a)); }},
      {"conv_transpose1d", [](const Args& a) -> Tensor { return conv_transpose1d(a[0], a[1], transposed_options(a)); }},
      {"conv_transpose2d", [](const Args& a) -> Tensor { return conv_transpose2d(a[0], a[1], transposed_options(a)); }},
      {"conv_transpose3d", [](const Args& a) -> Tensor { return conv_transpose3d(a[0], a[1], transposed_options(a)); }},
      {"max_pool1d", [](const Args& a) -> Tensor { return max_pool1d(a[0], max_options<1>(a)); }},
      {"max_pool2d", [](const Args& a) -> Tensor { return max_pool2d(a[0], max_options<2>(a)); }},
      {"max_pool1d_with_indices",
       [](const Args& a) -> Tensors { return both(max_pool1d_with_indices(a[0], max_options<1>(a))); }},
      {"max_pool2d_with_indices",
       [](const Args& a) -> Tensors { return both(max_pool2d_with_indices(a[0], max_options<2>(a))); }},
      {"max_pool3d_with_indices",
       [](const Args& a) -> Tensors { return both(max_pool3d_with_indices(a[0], max_options<3>(a))); }},
      {"max_unpool1d", [](const Args& a) -> Tensor { return max_unpool1d(a[0], a[1], unpool_options<1>(a)); }},
      {"max_unpool2d", [](const Args& a) -> Tensor { return max_unpool2d(a[0], a[1], unpool_options<2>(a)); }},
      {"max_unpool3d", [](const Args& a) -> Tensor { return max_unpool3d(a[0], a[1], unpool_options<3>(a)); }},
      {"fractional_max_pool2d",
       [](const Args& a) -> Tensor { return fractional_max_pool2d(a[0], fractional_options<2>(a), a[1]); }},
      {"fractional_max_pool3d",
       [](const Args& a) -> Tensor { return fractional_max_pool3d(a[0], fractional_options<3>(a), a[1]); }},
      {"lp_pool1d",
       [](const Args& a) -> Tensor {
         return lp_pool1d(a[0], a.at.number("p"), {.size = a.at.whole("size"), .stride = a.at.whole("stride")});
       }},
      {"lp_pool3d",
       [](const Args& a) -> Tensor {
         return lp_pool3d(a[0], a.at.number("p"), {.size = a.at.whole("size"), .stride = a.at.whole("stride")});
       }},
      {"max_pool3d", [](const Args& a) -> Tensor { return max_pool3d(a[0], max_options<3>(a)); }},
      {"avg_pool1d", [](const Args& a) -> Tensor { return avg_pool1d(a[0], avg_options<1>(a)); }},
      {"avg_pool2d", [](const Args& a) -> Tensor { return avg_pool2d(a[0], avg_options<2>(a)); }},
      {"avg_pool3d", [](const Args& a) -> Tensor { return avg_pool3d(a[0], avg_options<3>(a)); }},
      {"adaptive_max_pool", [](const Args& a) -> Tensor { return adaptive_max_pool(a[0], a.at.shape("size")); }},
      {"adaptive_max_pool_with_indices",
       [](const Args& a) { return both(adaptive_max_pool_with_indices(a[0], a.at.shape("size"))); }},
      {"avg_pool2d with a divisor",
       [](const Args& a) -> Tensor {
         return avg_pool2d(a[0],
                           {.size = 2, .stride = 2, .padding = 1, .ceil_mode = true, .divisor = a.at.whole("divisor")});
       }},
      {"conv2d of one example",
       [](const Args& a) -> Tensor { return conv2d(a[0], a[1], {.padding = 1, .bias = a[2]}); }},
      {"adaptive_avg_pool", [](const Args& a) -> Tensor { return adaptive_avg_pool(a[0], a.at.shape("size")); }},
      {"lp_pool2d",
       [](const Args& a) -> Tensor {
         return lp_pool2d(a[0], a.at.number("p"), a.at.whole("size"), a.at.whole("stride"));
       }},
      {"unfold", [](const Args& a) -> Tensor { return unfold(a[0], a.at.whole("kernel"), unfold_options(a)); }},
      {"fold",
       [](const Args& a) -> Tensor { return fold(a[0], a.at.shape("size"), a.at.whole("kernel"), unfold_options(a)); }},
  };
}

NamedFunctions image_functions() {
  return {
      {"pixel_shuffle", [](const Args& a) -> Tensor { return pixel_shuffle(a[0], a.at.whole("factor")); }},
      {"pixel_unshuffle", [](const Args& a) -> Tensor { return pixel_unshuffle(a[0], a.at.whole("factor")); }},
      {"channel_shuffle", [](const Args& a) -> Tensor { return channel_shuffle(a[0], a.at.whole("groups")); }},
      {"interpolate nearest", interpolated},
      {"interpolate nearest_exact", interpolated},
      {"interpolate linear", interpolated},
      {"interpolate bicubic", interpolated},
      {"interpolate area", interpolated},
      {"interpolate smoothed", smoothed},
      {"grid_sample linear", sampled},
      {"grid_sample nearest", sampled},
      {"grid_sample bicubic", sampled},
      {"grid_sample of volumes", sampled},
  };
}

}  // namespace

NamedFunctions layers_functions() { return joined({norm_functions(), window_functions(), image_functions()}); }

}  // namespace sinter_test
