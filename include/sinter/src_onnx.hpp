// Every definition of exported models: ONNX files and C++ headers. Included by onnx.hpp when header-only, else by
// one translation unit: see src.hpp.
#pragma once
// io/cpp
#include <sinter/io/cpp/export.ipp>
#include <sinter/io/cpp/header_writer.ipp>
#include <sinter/io/cpp/order_source.ipp>
// io/onnx
#include <sinter/io/onnx/elementwise.ipp>
#include <sinter/io/onnx/export.ipp>
#include <sinter/io/onnx/export_elementwise.ipp>
#include <sinter/io/onnx/export_node.ipp>
#include <sinter/io/onnx/export_structure.ipp>
#include <sinter/io/onnx/export_writer.ipp>
#include <sinter/io/onnx/format.ipp>
#include <sinter/io/onnx/indexing.ipp>
#include <sinter/io/onnx/layers.ipp>
#include <sinter/io/onnx/model.ipp>
#include <sinter/io/onnx/node_call.ipp>
#include <sinter/io/onnx/resample.ipp>
#include <sinter/io/onnx/sequence.ipp>
#include <sinter/io/onnx/shapes.ipp>
#include <sinter/io/onnx/windows.ipp>
