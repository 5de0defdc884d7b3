// Every definition of io. Included by sinter.hpp when header-only, else by one translation unit: see src.hpp.
#pragma once
// io
#include <sinter/io/checkpoint.ipp>
#include <sinter/io/file.ipp>
#include <sinter/io/function_bytes.ipp>
#include <sinter/io/function_file.ipp>
#include <sinter/io/function_reader.ipp>
#include <sinter/io/function_writer.ipp>
#include <sinter/io/gguf.ipp>
#include <sinter/io/json.ipp>
#include <sinter/io/npy.ipp>
#include <sinter/io/pickle.ipp>
#include <sinter/io/pytorch.ipp>
#include <sinter/io/safetensors.ipp>
#include <sinter/io/state.ipp>
#include <sinter/io/tensors.ipp>
#include <sinter/io/zip.ipp>
