// all_reduce of sparse COO tensors: every rank gathers what every rank has, and adds it up in the
// order of ranks, so that all ranks get the same bits. Costs the sum of all ranks' elements.
#include <ATen/ATen.h>
#include <c10/util/Exception.h>

#include <cstring>
#include <memory>
#include <utility>

#include "backend.h"

namespace mccl {
namespace {

using c10d::OpType;
using Tensors = std::vector<at::Tensor>;

// Ranks whose tensors differ in it cannot add them.
int64_t hash_of_shape(const at::Tensor& tensor) {
  uint64_t hash = 14695981039346656037U;  // FNV-1a
  const auto mix = [&](int64_t value) {
    hash = (hash ^ static_cast<uint64_t>(value)) * 1099511628211U;
  };
  mix(tensor.sparse_dim());
  for (const int64_t length : tensor.sizes()) mix(length);
  return static_cast<int64_t>(hash);
}

Tensors make_blocks(const std::vector<int64_t>& lengths, const at::Tensor& like) {
  Tensors blocks;
  for (const int64_t length : lengths) {
    std::vector<int64_t> sizes = like.sizes().vec();
    sizes[0] = length;
    blocks.push_back(at::empty(sizes, like.options()));
  }
  return blocks;
}

}  // namespace

Backend::WorkPointer Backend::allreduce_sparse(Tensors& tensors,
                                               const c10d::AllreduceOptions& options) {
  const at::Tensor tensor =
      only_tensor(tensors, "all_reduce");  // detached, it would not be written
  TORCH_CHECK_VALUE(tensor.is_sparse(), "mccl: all_reduce_sparse takes a sparse COO tensor, not a ",
                    tensor.layout(), " one");
  if (options.reduceOp.op_ != c10d::ReduceOp::SUM)
    C10_THROW_ERROR(NotImplementedError,
                    "mccl: all_reduce of sparse tensors supports ReduceOp.SUM only");
  const at::NoGradGuard no_grad;
  const at::Tensor own = tensor.coalesce();
  const at::Tensor indices = own.indices().t().contiguous();  // one row per element
  const at::Tensor values = own.values().contiguous();
  const auto title = [&](bool is_async) {
    return Title{OpType::_ALLREDUCE_SPARSE, "mccl:all_reduce", options.timeout, is_async};
  };

  const at::Tensor facts = at::tensor({values.size(0), hash_of_shape(own)}, at::kLong);
  const at::Tensor all_facts = at::empty({getSize(), 2}, at::kLong);
  post(gather_into(title(false), all_facts, facts))->synchronize();
  std::vector<int64_t> lengths;
  for (int rank = 0; rank < getSize(); ++rank) {
    lengths.push_back(all_facts[rank][0].item<int64_t>());
    TORCH_CHECK_VALUE(all_facts[rank][1].item<int64_t>() == facts[1].item<int64_t>(),
                      "mccl: all_reduce of sparse tensors of different shapes: group rank ", rank,
                      "'s is another than group rank ", getRank(), "'s, which has sizes ",
                      own.sizes(), " and ", own.sparse_dim(), " sparse dimensions");
  }

  Tensors all_indices = make_blocks(lengths, indices);
  Tensors all_values = make_blocks(lengths, values);
  const WorkPointer first = post(gather_blocks(title(true), indices, all_indices));
  Call second = gather_blocks(title(options.asyncOp), values, all_values);
  second.outputs = {tensors[0]};
  second.finish = [first, tensor, all_indices, all_values]() mutable {
    first->wait();
    at::Tensor sum = at::zeros_like(tensor);
    for (size_t rank = 0; rank < all_values.size(); ++rank)
      sum = sum.add(at::sparse_coo_tensor(all_indices[rank].t(), all_values[rank], tensor.sizes(),
                                          tensor.options()));
    tensor.copy_(sum.coalesce());
  };
  return post(std::move(second));
}

}  // namespace mccl
