// SPDX-License-Identifier: Apache-2.0
#include "cmd/command_list.h"

#include <fmt/format.h>

namespace hvdray {

std::string OverviewHelp() {
  std::string help =
      "hvdray starts data-parallel training: unmodified Horovod scripts, torch.distributed\n"
      "scripts, or any command that reads its rank from the environment.\n\n"
      "  hvdray run -np 4 -- python train.py\n"
      "  hvdray run --cluster configs/quickstart.yaml\n\n"
      "Commands:\n";
  for (const CommandName& command : kCommandNames) {
    help += fmt::format("  {:<12}{}\n", command.name, command.summary);
  }
  return help + "\nhvdray COMMAND --help shows a command's options. Exit codes: docs/errors.md\n";
}

std::string OverviewManPage() {
  std::string page =
      ".\\\" Generated from the list of commands by hvdray-gen-cli; do not edit.\n"
      ".TH HVDRAY 1\n"
      ".SH NAME\n"
      "hvdray \\- start data\\-parallel training on one host, many hosts or a Ray cluster\n"
      ".SH SYNOPSIS\n"
      ".B hvdray\n"
      "COMMAND [OPTION...]\n"
      ".SH DESCRIPTION\n"
      "Starts unmodified Horovod scripts, torch.distributed scripts, or any command that reads "
      "its\n"
      "rank from the environment, and reports what happened. Called under the name horovodrun it\n"
      "is hvdray\\-run(1).\n"
      ".SH COMMANDS\n";
  for (const CommandName& command : kCommandNames) {
    page += fmt::format(".TP\n.B {}\n{}\n", command.name, command.summary);
  }
  page +=
      ".SH EXIT STATUS\n"
      "Those of the command; 2 for a command that does not exist.\n"
      ".SH SEE ALSO\n";
  for (const CommandName& command : kCommandNames) {
    if (command.name == "explain" || command.name == "agent") continue;
    page += fmt::format("{}hvdray\\-{}(1)", command.name == "run" ? "" : ",\n", command.name);
  }
  return page + "\n";
}

}  // namespace hvdray
