// See the header.
#pragma once

#include <sinter/ops/region.hpp>

SINTER_NAMESPACE_BEGIN
namespace ops {

SINTER_DECL void Region::infer(const InferArgs& args, TypeList& out) {
  ensure(args.attrs.bodies.size() == 1, "a region has one sub-graph");
  const Graph& body = *args.attrs.bodies[0];
  ensure(args.in.size() == body.inputs().size(), "a region has an operand for each input of its sub-graph");
  for (std::size_t i = 0; i < args.in.size(); ++i) {
    const Type& wanted = body.type(body.inputs()[i]);
    bool fits = wanted.dtype == args.in[i].dtype && wanted.shape.rank() == args.in[i].shape.rank();
    for (int axis = 0; fits && axis < wanted.shape.rank(); ++axis) {
      const Dim given = args.in[i].shape[axis], taken = wanted.shape[axis];
      fits = !given.is_static() || !taken.is_static() || given.value() == taken.value();
    }
    if (!fits)
      throw InternalError("operand " + std::to_string(i) + " of a region is " + args.in[i].text() +
                              ", its sub-graph takes " + wanted.text(),
                          args.where);
  }
  for (Value v : body.outputs()) out.push_back(body.type(v));
}

SINTER_DECL void Region::run_on_host(HostCall& call) {
  SmallVector<void*, 16> inputs, outputs;
  for (const HostView& view : call.in) inputs.push_back(view.data);
  for (const HostView& view : call.out) outputs.push_back(view.data);
  call.run_body(0, {inputs.data(), inputs.size()}, {outputs.data(), outputs.size()});
}

}  // namespace ops
SINTER_NAMESPACE_END
