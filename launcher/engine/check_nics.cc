#include "launcher/engine/check_nics.h"

#include <algorithm>
#include <utility>

namespace hvdray {
namespace {

using Choices = Result<std::vector<NicChoice>>;

/// One host among others that are as it is: what it would take if all else were well.
Choices SelectAmongLike(const HostNics& host, std::span<const std::string> wanted,
                        HostSpread spread) {
  const HostNics twice[] = {host, host};
  return SelectNics(twice, wanted, spread);
}

Status WhyUnfit(const HostNics& host, std::span<const std::string> wanted, HostSpread spread) {
  // One of the wanted names is enough.
  for (const std::string& name : wanted) {
    if (SelectAmongLike(host, std::span(&name, 1), spread).ok()) return {};
  }
  return SelectAmongLike(host, wanted, spread).status();
}

Choices SelectAll(std::span<const HostNics> hosts, size_t planned,
                  std::span<const std::string> wanted, HostSpread spread) {
  if (hosts.size() != 1 || planned == 1) return SelectNics(hosts, wanted, spread);
  HVDRAY_ASSIGN_OR_RETURN(std::vector<NicChoice> both, SelectAmongLike(hosts[0], wanted, spread));
  both.pop_back();
  return both;
}

}  // namespace

CheckedNics SelectNicsOfEach(std::span<const HostNics> hosts, size_t planned,
                             std::span<const std::string> wanted, HostSpread spread) {
  CheckedNics nics{.choices = std::vector<std::optional<NicChoice>>(hosts.size()),
                   .why = std::vector<Status>(hosts.size())};
  std::vector<HostNics> fit(hosts.begin(), hosts.end());
  std::vector<size_t> index(hosts.size());
  for (size_t i = 0; i < index.size(); ++i) index[i] = i;
  Choices choices = SelectAll(fit, planned, wanted, spread);
  if (!choices.ok()) {
    fit.clear();
    index.clear();
    for (size_t i = 0; i < hosts.size(); ++i) {
      nics.why[i] = WhyUnfit(hosts[i], wanted, spread);
      if (!nics.why[i].ok()) continue;
      fit.push_back(hosts[i]);
      index.push_back(i);
    }
    if (fit.size() < hosts.size()) choices = SelectAll(fit, planned, wanted, spread);
  }
  if (!choices.ok()) {
    nics.all = choices.status();
    return nics;
  }
  for (size_t i = 0; i < choices->size(); ++i) nics.choices[index[i]] = std::move((*choices)[i]);
  return nics;
}

}  // namespace hvdray
