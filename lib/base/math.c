/* Elementary functions as fixed sequences of IEEE operations: no libm, no contraction, so that the
 * bits do not depend on the machine, the C library or the compiler. */
#include "base/base.h"

#include <math.h>
#include <string.h>

/* 2^n for n in the range of normal numbers. */
static float power_of_two(int n)
{
    uint32_t bits = (uint32_t)(n + 127) << 23;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* exp(x) = 2^n exp(r), n = rint(x / ln 2), |r| <= ln(2)/2; exp(r) by its Taylor series to r^7,
 * whose remainder is below 6e-9.  The scale is applied in two exact powers, so that results below
 * the normal range are rounded once.  Error below 1 unit in the last place. */
float exact_exp(float x)
{
    if (!(x >= -104.0f))
        return x < -104.0f ? 0.0f : x; /* NaN passes through */
    if (x > 89.0f)
        return INFINITY;
    float n = rintf(x * 0x1.715476p+0f);
    float r = fmaf(n, -0x1.62e4p-1f, x); /* n * (the high bits of ln 2) is exact */
    r = fmaf(n, -0x1.7f7d1cp-20f, r);
    float p = 0x1.a01a02p-13f; /* 1/7! */
    p = fmaf(p, r, 0x1.6c16c2p-10f);
    p = fmaf(p, r, 0x1.111112p-7f);
    p = fmaf(p, r, 0x1.555556p-5f);
    p = fmaf(p, r, 0x1.555556p-3f);
    p = fmaf(p, r, 0.5f);
    p = fmaf(p, r, 1.0f);
    p = fmaf(p, r, 1.0f);
    int whole = (int)n, half = whole >> 1;
    return p * power_of_two(half) * power_of_two(whole - half);
}

/* The same in double, Taylor to r^13, whose remainder is below 5e-18.  Error below 1 unit in the
 * last place. */
double exact_exp_f64(double x)
{
    static const double inverse_factorial[] = {0x1.6124613a86d09p-33,
                                               0x1.1eed8eff8d898p-29,
                                               0x1.ae64567f544e4p-26,
                                               0x1.27e4fb7789f5cp-22,
                                               0x1.71de3a556c734p-19,
                                               0x1.a01a01a01a01ap-16,
                                               0x1.a01a01a01a01ap-13,
                                               0x1.6c16c16c16c17p-10,
                                               0x1.1111111111111p-7,
                                               0x1.5555555555555p-5,
                                               0x1.5555555555555p-3,
                                               0.5,
                                               1.0,
                                               1.0};
    if (!(x >= -708))
        return x < -708 ? 0 : x; /* NaN passes through */
    if (x > 709)
        return INFINITY;
    double n = rint(x * 0x1.71547652b82fep+0);
    double r = fma(n, -0x1.62e42fefa3800p-1, x);
    r = fma(n, -0x1.ef35793c76730p-45, r);
    double p = inverse_factorial[0]; /* 1/13! */
    for (size_t k = 1; k < sizeof inverse_factorial / sizeof *inverse_factorial; k++)
        p = fma(p, r, inverse_factorial[k]);
    return ldexp(p, (int)n); /* exact: the result is a normal number */
}

/* For |x| < 0.625 the odd polynomial of Cephes tanhf (S. Moshier), x + x z P(z), z = x^2; else from
 * exp.  Error below 2 units in the last place. */
float exact_tanh(float x)
{
    float a = fabsf(x);
    if (a < 0.625f) {
        float z = x * x;
        float p = -5.70498872745e-3f;
        p = fmaf(p, z, 2.06390887954e-2f);
        p = fmaf(p, z, -5.37397155531e-2f);
        p = fmaf(p, z, 1.33314422036e-1f);
        p = fmaf(p, z, -3.33332819422e-1f);
        return fmaf(p * z, x, x);
    }
    float t = 1.0f - 2.0f / (exact_exp(a + a) + 1.0f);
    return x < 0 ? -t : t; /* NaN: t is NaN */
}

/* log(x) = e ln 2 + 2 atanh(s), s = (m-1)/(m+1), m in [sqrt(1/2), sqrt(2)): the odd series in s to
 * s^23.  Error of a few units in the last place of a double. */
double exact_log(double x)
{
    if (x <= 0 || !isfinite(x))
        return x == 0 ? -INFINITY : x < 0 ? NAN : x;
    int exponent;
    double m = frexp(x, &exponent); /* exact */
    if (m < 0.70710678118654752) {
        m = m * 2;
        exponent = exponent - 1;
    }
    double s = (m - 1) / (m + 1), z = s * s, sum = 0;
    for (int k = 23; k >= 1; k -= 2)
        sum = fma(sum, z, 1.0 / k);
    return fma((double)exponent, 0x1.62e42fefa39efp-1, 2 * s * sum);
}

/* base^exponent = exp(exponent * log(base)); the exponential by argument reduction with ln 2 and
 * Taylor to r^14.  Relative error about |exponent * log(base)| * 2^-52. */
double exact_pow(double base, double exponent)
{
    double x = exponent * exact_log(base);
    if (!(x > -708))
        return x <= -708 ? 0 : x;
    if (x > 709)
        return INFINITY;
    double n = rint(x * 0x1.71547652b82fep+0);
    double r = fma(n, -0x1.62e42fefa3800p-1, x);
    r = fma(n, -0x1.ef35793c76730p-45, r);
    double p = 1;
    for (int k = 14; k >= 1; k--)
        p = fma(p * r, 1.0 / k, 1.0);
    return ldexp(p, (int)n); /* exact: the result is a normal number */
}

/* Reduction by pi/2 in three parts (each product is exact in the fused multiply-add), then Taylor
 * series on |r| <= pi/4, to r^17 and r^18.  Absolute error below 1e-15 for |angle| <= 1e9. */
void exact_sincos(double angle, double *sine, double *cosine)
{
    double n = rint(angle * 0x1.45f306dc9c883p-1);
    double r = fma(n, -0x1.921fb54442d18p+0, angle);
    r = fma(n, -0x1.1a62633145c07p-54, r);
    r = fma(n, 0x1.f1976b7ed8fbcp-110, r);
    double z = r * r, s = 1, c = 1;
    for (int k = 16; k >= 2; k -= 2)
        s = fma(s, -z / (k * (k + 1)), 1.0);
    for (int k = 17; k >= 1; k -= 2)
        c = fma(c, -z / (k * (k + 1)), 1.0);
    s *= r;
    switch ((int64_t)n & 3) {
    case 0:
        *sine = s, *cosine = c;
        break;
    case 1:
        *sine = c, *cosine = -s;
        break;
    case 2:
        *sine = -s, *cosine = -c;
        break;
    default:
        *sine = -c, *cosine = s;
    }
}
