// SPDX-License-Identifier: Apache-2.0
// Compiles fmt's own code once for the whole tree. Debian has fmt as a shared library, which the
// static agent cannot link, and as headers, which would add about four seconds to the compile of
// every source that formats a line.
#include <fmt/format-inl.h>

FMT_BEGIN_NAMESPACE
namespace detail {

// fmt's headers declare these as compiled elsewhere, but define them only as templates.
template auto dragonbox::to_decimal(float x) noexcept -> dragonbox::decimal_fp<float>;
template auto dragonbox::to_decimal(double x) noexcept -> dragonbox::decimal_fp<double>;
template auto thousands_sep_impl<char>(locale_ref loc) -> thousands_sep_result<char>;
template auto decimal_point_impl(locale_ref loc) -> char;

}  // namespace detail
FMT_END_NAMESPACE
