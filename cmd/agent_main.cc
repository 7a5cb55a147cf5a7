// The executable hvdray-agent. No logic here.
#include "launcher/agent/agent.h"

int main(int argc, char** argv) { return hvdray::AgentMain(argc, argv); }
