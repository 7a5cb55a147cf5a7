// SPDX-License-Identifier: Apache-2.0
// Trains the perceptron on the digits, data-parallel over the ranks that hvdray starts. Run alone,
// it is a single rank.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <numeric>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <system_error>

#include "base/environ.h"
#include "base/exec.h"
#include "base/fd.h"
#include "base/text.h"
#include "collective/communicator.h"
#include "digits/dataset.h"
#include "digits/model.h"

namespace hvdray::digits {
namespace {

// That of the checkout we are in, or the file that belongs to this program.
std::string DefaultData() {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path installed =
      fs::path(OwnPath()).parent_path().parent_path() / "share/hvdray/digits.csv";
  const std::string checkout = "examples/digits/digits.csv";
  return !fs::exists(installed, error) && fs::exists(checkout, error) ? checkout
                                                                      : installed.string();
}

struct Settings {
  std::string data = DefaultData();
  int epochs = 20;
  int batch = 16;  // Of one rank.
  int hidden = 64;
  float rate = 0.1F;
  float momentum = 0.9F;
};

void Print(const std::string& line) {
  std::fputs((line + "\n").c_str(), stdout);
  std::fflush(stdout);
}

// From "--name value" pairs.
Result<Settings> ReadWords(std::span<char*> words) {
  const Status usage(
      ErrorCode::kUsage,
      "usage: hvdray-digits [--data FILE.csv] [--epochs N] [--batch N] [--hidden N] [--rate X]",
      "batch: images per step and rank; rate: of learning");
  Settings settings;
  if (words.size() % 2 != 0) return usage;
  for (size_t i = 0; i < words.size(); i += 2) {
    const std::string name = words[i];
    const std::string value = words[i + 1];
    if (name == "--data") {
      settings.data = value;
    } else if (name == "--rate") {
      const std::optional<double> rate = ParseDouble(value);
      if (!rate) return usage;
      settings.rate = static_cast<float>(*rate);
    } else {
      int* const number = name == "--epochs"   ? &settings.epochs
                          : name == "--batch"  ? &settings.batch
                          : name == "--hidden" ? &settings.hidden
                                               : nullptr;
      const std::optional<int> whole = ParseInteger<int>(value);
      if (number == nullptr || !whole || *whole < 1 || *whole > 100000) return usage;
      *number = *whole;
    }
  }
  return settings;
}

// One pass over this rank's shard, in step with all others. Returns the mean loss over all ranks.
Result<double> TrainEpoch(Communicator& communicator, const Settings& settings,
                          const Dataset& shard, size_t steps, std::mt19937& random, Model& model,
                          std::vector<float>& velocity) {
  std::vector<size_t> order(shard.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::shuffle(order.begin(), order.end(), random);
  const size_t count = model.parameters().size();
  const auto batch = static_cast<size_t>(settings.batch);
  double loss = 0;
  double seen = 0;
  for (size_t step = 0; step < steps; ++step) {
    // The last two floats carry the loss and the count, so each step needs only one all-reduce.
    std::vector<float> sums(count + 2, 0.0F);
    const size_t first = std::min(step * batch, order.size());
    const size_t last = std::min(first + batch, order.size());
    const std::span<const size_t> images(order.data() + first, last - first);
    sums[count] =
        static_cast<float>(model.AddGradient(shard, images, std::span(sums).first(count)));
    sums[count + 1] = static_cast<float>(images.size());
    HVDRAY_RETURN_IF_ERROR(communicator.AllReduce(sums.data(), sums.data(), sums.size(),
                                                  DataType::kFloat32, ReduceOp::kSum));
    const float images_of_all = std::max(sums[count + 1], 1.0F);
    for (size_t i = 0; i < count; ++i) {
      velocity[i] = settings.momentum * velocity[i] - settings.rate * sums[i] / images_of_all;
      model.parameters()[i] += velocity[i];
    }
    loss += sums[count];
    seen += sums[count + 1];
  }
  return loss / std::max(seen, 1.0);
}

Result<double> TestAccuracy(Communicator& communicator, const Dataset& test, const Model& model) {
  const Dataset mine = Shard(test, communicator.rank(), communicator.size());
  int64_t counts[2] = {0, static_cast<int64_t>(mine.size())};
  for (size_t i = 0; i < mine.size(); ++i) {
    if (model.Predict(mine.image(i)) == mine.labels[i]) ++counts[0];
  }
  HVDRAY_RETURN_IF_ERROR(
      communicator.AllReduce(counts, counts, 2, DataType::kInt64, ReduceOp::kSum));
  return static_cast<double>(counts[0]) / static_cast<double>(std::max<int64_t>(counts[1], 1));
}

Status Train(const Settings& settings) {
  const auto start = std::chrono::steady_clock::now();
  Result<std::string> read = ReadFile(settings.data);
  if (!read.ok()) return std::move(read).status().WithHint("--data FILE.csv names another");
  const std::string text = std::move(read).value();
  HVDRAY_ASSIGN_OR_RETURN(const Dataset all, ParseDigits(text, settings.data));
  const Split split = SplitDigits(all);
  HVDRAY_ASSIGN_OR_RETURN(const CommunicatorOptions options,
                          CommunicatorOptionsFrom(Environment::FromProcess(), "digits"));
  HVDRAY_ASSIGN_OR_RETURN(auto communicator, MakeCommunicator(options));
  const int rank = communicator->rank();
  const int size = communicator->size();
  const Dataset shard = Shard(split.train, rank, size);
  Print(fmt::format("rank {} of {}: {} of {} training images", rank, size, shard.size(),
                    split.train.size()));

  // Every rank starts with other weights on purpose: the broadcast makes them one model.
  Model model(static_cast<size_t>(settings.hidden), static_cast<uint32_t>(rank) + 1);
  std::vector<float>& parameters = model.parameters();
  HVDRAY_RETURN_IF_ERROR(
      communicator->Broadcast(parameters.data(), parameters.size(), DataType::kFloat32, 0));

  const auto per_step = static_cast<size_t>(settings.batch) * static_cast<size_t>(size);
  const size_t steps = (split.train.size() + per_step - 1) / per_step;
  std::mt19937 random(static_cast<uint32_t>(rank) + 1);
  std::vector<float> velocity(parameters.size(), 0.0F);
  for (int epoch = 1; epoch <= settings.epochs; ++epoch) {
    HVDRAY_ASSIGN_OR_RETURN(const double loss, TrainEpoch(*communicator, settings, shard, steps,
                                                          random, model, velocity));
    if (rank == 0 && (epoch % 5 == 0 || epoch == 1)) {
      Print(fmt::format("epoch {:2d}  loss {:.4f}", epoch, loss));
    }
  }
  HVDRAY_ASSIGN_OR_RETURN(const double accuracy, TestAccuracy(*communicator, split.test, model));
  if (rank == 0) {
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    Print(fmt::format("test accuracy {:.1f} % of {} images, {} workers, {:.2f} s", accuracy * 100,
                      split.test.size(), size, took.count()));
  }
  return {};
}

}  // namespace
}  // namespace hvdray::digits

int main(int argc, char** argv) {
  const auto settings = hvdray::digits::ReadWords(std::span(argv, argc).subspan(argc > 0 ? 1 : 0));
  const hvdray::Status status =
      settings.ok() ? hvdray::digits::Train(*settings) : settings.status();
  if (status.ok()) return 0;
  std::fprintf(stderr, "digits: %s\n", status.ToString().c_str());
  return 1;
}
