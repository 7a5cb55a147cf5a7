// SPDX-License-Identifier: Apache-2.0
#include "wire/inspection_fields.h"

#include <utility>

namespace hvdray::wire {
namespace {

/// Objects of an array, each read by `read_one(reader, element)`.
template <typename T, typename ReadOne>
void ReadObjects(FieldReader& read, Status& status, const char* key, std::vector<T>& list,
                 const ReadOne& read_one) {
  read.Each(key, [&](const Json& element) {
    if (list.size() >= kMaxInspected) return read.Fault(key);
    FieldReader item(element, status);
    if (status.ok()) read_one(item, list.emplace_back());
  });
}

void ReadTexts(FieldReader& read, const char* key, std::vector<std::string>& list) {
  read.Each(key, [&](const Json& element) {
    const bool is_fit = element.is_string() && list.size() < kMaxInspected;
    if (!is_fit || element.get_ref<const std::string&>().size() > kMaxText) return read.Fault(key);
    list.push_back(ShownLine(element.get_ref<const std::string&>()));
  });
}

}  // namespace

Json ToJson(const Inspection& inspection) {
  Json directories = Json::array();
  for (const DirectoryFacts& directory : inspection.directories) {
    directories.push_back({{"use", directory.use},
                           {"path", directory.path},
                           {"error", directory.error},
                           {"is_writable", directory.is_writable},
                           {"is_noexec", directory.is_noexec},
                           {"total_bytes", directory.total_bytes},
                           {"free_bytes", directory.free_bytes}});
  }
  Json limits = Json::array();
  for (const LimitFacts& limit : inspection.limits) {
    limits.push_back({{"name", limit.name}, {"soft", limit.soft}, {"hard", limit.hard}});
  }
  Json missing = Json::array();
  for (const MissingFile& file : inspection.missing_files) {
    missing.push_back({{"path", file.path}, {"error", file.error}});
  }
  Json modules = Json::array();
  for (const ModuleFacts& module : inspection.modules) {
    modules.push_back(
        {{"name", module.name}, {"version", module.version}, {"trouble", module.trouble}});
  }
  Json gpus = Json::array();
  for (const GpuFacts& gpu : inspection.gpus) {
    gpus.push_back({{"name", gpu.name}, {"memory_bytes", gpu.memory_bytes}});
  }
  return {{"received_ns", inspection.received_ns},
          {"sent_ns", inspection.sent_ns},
          {"kernel", inspection.kernel},
          {"distribution", inspection.distribution},
          {"libc", inspection.libc},
          {"memory_bytes", inspection.memory_bytes},
          {"available_bytes", inspection.available_bytes},
          {"memory_limit_bytes", inspection.memory_limit_bytes},
          {"folders", std::move(directories)},
          {"limits", std::move(limits)},
          {"gpus", std::move(gpus)},
          {"gpu_device_count", inspection.gpu_device_count},
          {"gpu_driver", inspection.gpu_driver},
          {"gpu_trouble", inspection.gpu_trouble},
          {"infiniband_count", inspection.infiniband_count},
          {"command_path", inspection.command_path},
          {"command_error", inspection.command_error},
          {"command_interpreter", inspection.command_interpreter},
          {"command_version", inspection.command_version},
          {"name_addresses", inspection.name_addresses},
          {"missing_files", std::move(missing)},
          {"modules", std::move(modules)},
          {"unanswered", inspection.unanswered}};
}

void ReadInspection(FieldReader& read, Status& status, Inspection& inspection) {
  read.Unsigned64("received_ns", inspection.received_ns);
  read.Unsigned64("sent_ns", inspection.sent_ns);
  read.Shown("kernel", inspection.kernel);
  read.Shown("distribution", inspection.distribution);
  read.Shown("libc", inspection.libc);
  read.Unsigned64("memory_bytes", inspection.memory_bytes);
  read.Unsigned64("available_bytes", inspection.available_bytes);
  read.Unsigned64("memory_limit_bytes", inspection.memory_limit_bytes);
  ReadObjects(read, status, "folders", inspection.directories,
              [](FieldReader& item, DirectoryFacts& f) {
                item.Text("use", f.use);
                item.Shown("path", f.path);
                item.Int("error", f.error, 0, kMaxErrno);
                item.Bool("is_writable", f.is_writable);
                item.Bool("is_noexec", f.is_noexec);
                item.Unsigned64("total_bytes", f.total_bytes);
                item.Unsigned64("free_bytes", f.free_bytes);
              });
  ReadObjects(read, status, "limits", inspection.limits, [](FieldReader& item, LimitFacts& limit) {
    item.Text("name", limit.name);
    item.Unsigned64("soft", limit.soft);
    item.Unsigned64("hard", limit.hard);
  });
  ReadObjects(read, status, "gpus", inspection.gpus, [](FieldReader& item, GpuFacts& gpu) {
    item.Shown("name", gpu.name);
    item.Unsigned64("memory_bytes", gpu.memory_bytes);
  });
  read.Unsigned("gpu_device_count", inspection.gpu_device_count);
  read.Shown("gpu_driver", inspection.gpu_driver);
  read.Shown("gpu_trouble", inspection.gpu_trouble);
  read.Unsigned("infiniband_count", inspection.infiniband_count);
  read.Shown("command_path", inspection.command_path);
  read.Int("command_error", inspection.command_error, 0, kMaxErrno);
  read.Text("command_interpreter", inspection.command_interpreter);  // its \r tells; shown escaped
  read.Shown("command_version", inspection.command_version);
  ReadTexts(read, "name_addresses", inspection.name_addresses);
  ReadObjects(read, status, "missing_files", inspection.missing_files,
              [](FieldReader& item, MissingFile& file) {
                item.Shown("path", file.path);
                item.Int("error", file.error, 0, kMaxErrno);
              });
  ReadObjects(read, status, "modules", inspection.modules,
              [](FieldReader& item, ModuleFacts& module) {
                item.Shown("name", module.name);
                item.Shown("version", module.version);
                item.Shown("trouble", module.trouble);
              });
  ReadTexts(read, "unanswered", inspection.unanswered);
}

}  // namespace hvdray::wire
