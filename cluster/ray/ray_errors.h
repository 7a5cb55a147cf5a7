// What a dashboard answers or fails to answer, as one line for people. Pure.
#ifndef HVDRAY_CLUSTER_RAY_RAY_ERRORS_H_
#define HVDRAY_CLUSTER_RAY_RAY_ERRORS_H_

#include <string>
#include <string_view>

#include "base/status.h"
#include "base/types.h"
#include "base/web_client.h"
#include "cluster/ray/ray_token.h"

namespace hvdray {

/// Who was asked for what: "http://10.0.0.10:8265", "list its nodes".
struct RayQuestion {
  std::string url;
  std::string attempt;
  bool is_first = false;  ///< Nothing has shown yet that a Ray dashboard is there.
};

/// For a request that got no answer, from what WebClient says.
Status NoRayAnswer(const RayQuestion& question, const Status& why);

/// For an answer whose status is not 200. Errors: those of DashboardClient.
Status RayRefusal(const RayQuestion& question, const WebReply& reply, const RayToken& token);

/// For an answer of status 200 that is not what Ray says: `fault` by the parser.
Status NotRays(const RayQuestion& question, const WebReply& reply, const Status& fault);

/// The last line of `body` with a word in it, fit to be shown: of a Python traceback the one that
/// says what is wrong (the dashboard sets a full stop of its own under one of its agent). Empty for
/// none.
std::string LastLine(ByteView body);

/// Replaces the token wherever it stands in `text`: some servers send back what they were sent.
void MaskToken(std::string& text, const RayToken& token);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_RAY_RAY_ERRORS_H_
