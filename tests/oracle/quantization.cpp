// Quantised numbers and products with them, by name.
#include "functions.hpp"

namespace sinter_test {
namespace {

Optional<int> axis_of(const Args& a) { return a.at.has("axis") ? Optional<int>(a.at.axis("axis")) : Optional<int>(); }
QuantizationScheme scheme_of(const Args& a) {
  return a.at.is("affine") ? QuantizationScheme::affine : QuantizationScheme::symmetric;
}
QuantizedWeight weight_of(const Tensor& w, const Args& a) {
  return quantize_weight(w, {.bits = a.at.axis("bits"), .group = a.at.whole("group"), .scheme = scheme_of(a)});
}
DType dtype_of(const Args& a, std::string_view name) {
  return a.at.word(name) == "f8e4m3" ? DType::f8e4m3 : DType::f8e5m2;
}

NamedFunctions numbers() {
  return {
      {"quantize",
       [](const Args& a) -> Tensor {
         return quantize(a[0], a[1], a[2],
                         {.dtype = a.at.dtype("dtype"),
                          .axis = axis_of(a),
                          .group = a.at.whole("group"),
                          .bits = a.at.axis("bits")});
       }},
      {"dequantize",
       [](const Args& a) -> Tensor {
         return dequantize(a[0], a[1], a[2], {.axis = axis_of(a), .group = a.at.whole("group")});
       }},
      {"fake_quantize",
       [](const Args& a) -> Tensor {
         return fake_quantize(a[0], a[1], a[2],
                              {.axis = axis_of(a), .quant_min = a.at.whole("low"), .quant_max = a.at.whole("high")});
       }},
      {"choose_quantization",
       [](const Args& a) -> Tensors {
         const QuantizationParameters found = choose_quantization(a[0], {.dtype = a.at.dtype("dtype"),
                                                                         .axis = axis_of(a),
                                                                         .group = a.at.whole("group"),
                                                                         .bits = a.at.axis("bits"),
                                                                         .scheme = scheme_of(a)});
         return {found.scale, found.zero_point};
       }},
      {"pack_int4", [](const Args& a) -> Tensor { return pack_int4(a[0]); }},
      {"unpack_int4", [](const Args& a) -> Tensor { return unpack_int4(a[0], a.at.dtype("dtype")); }},
  };
}

NamedFunctions products() {
  return {
      {"quantize_weight",
       [](const Args& a) -> Tensors {
         const QuantizedWeight w = weight_of(a[0], a);
         return {dequantize(w), w.scales};
       }},
      {"quantized_weight",
       [](const Args& a) -> Tensor { return dequantize(quantized_weight(a[0], a[1], a[2], a.at.axis("bits"))); }},
      {"quantized_matmul", [](const Args& a) -> Tensor { return quantized_matmul(a[0], weight_of(a[1], a)); }},
      {"quantized_matmul of rounded rows",
       [](const Args& a) -> Tensor {
         return quantized_matmul(a[0], weight_of(a[1], a), {.activations = Activations::dynamic_i8});
       }},
      {"integer_matmul", [](const Args& a) -> Tensor { return integer_matmul(a[0], a[1]); }},
      {"scaled_matmul",
       [](const Args& a) -> Tensor {
         return scaled_matmul(cast(a[0], dtype_of(a, "left")), cast(a[1], dtype_of(a, "right")), a[2], a[3],
                              {.dtype = DType::f32});
       }},
  };
}

}  // namespace

NamedFunctions quantization_functions() { return joined({numbers(), products()}); }

}  // namespace sinter_test
