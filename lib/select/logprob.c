/* Log-probabilities: the logarithm of the sum of exponentials of a whole vocabulary, in f64.  As in
 * weights.c the exponential is written once more, here that of exact_exp_f64, in a form that
 * compilers make vector instructions of; the tests hold both to the same bits. */
#include "select/internal.h"
#include "select/select.h"

#include <math.h>
#include <string.h>

enum { LANES = 16 };

/* exact_exp_f64 of base/math.c for x <= 0.  The bits of negative numbers, as signed integers, grow
 * with their magnitude. */
__attribute__((always_inline)) static inline double exponential(double x)
{
    const int64_t least = (int64_t)0xc086200000000000; /* -708 */
    int64_t bits, sign = INT64_MIN;
    memcpy(&bits, &x, sizeof bits);
    bits |= sign;
    int64_t inside = bits < least ? bits : least, keep = bits > least ? 0 : -1;
    memcpy(&x, &inside, sizeof x);
    double n = rint(x * 0x1.71547652b82fep+0);
    double r = fma(n, -0x1.62e42fefa3800p-1, x);
    r = fma(n, -0x1.ef35793c76730p-45, r);
    double p = 0x1.6124613a86d09p-33; /* 1/13! */
    p = fma(p, r, 0x1.1eed8eff8d898p-29);
    p = fma(p, r, 0x1.ae64567f544e4p-26);
    p = fma(p, r, 0x1.27e4fb7789f5cp-22);
    p = fma(p, r, 0x1.71de3a556c734p-19);
    p = fma(p, r, 0x1.a01a01a01a01ap-16);
    p = fma(p, r, 0x1.a01a01a01a01ap-13);
    p = fma(p, r, 0x1.6c16c16c16c17p-10);
    p = fma(p, r, 0x1.1111111111111p-7);
    p = fma(p, r, 0x1.5555555555555p-5);
    p = fma(p, r, 0x1.5555555555555p-3);
    p = fma(p, r, 0.5);
    p = fma(p, r, 1.0);
    p = fma(p, r, 1.0);
    uint64_t scale = (uint64_t)((int64_t)(int)n + 1023) << 52;
    double power;
    memcpy(&power, &scale, sizeof power);
    p *= power;
    memcpy(&bits, &p, sizeof bits);
    bits &= keep;
    memcpy(&p, &bits, sizeof p);
    return p;
}

__attribute__((always_inline)) static inline double sum_of(const float *logits, size_t n,
                                                           double greatest, double temperature)
{
    double sum[LANES] = {0};
    size_t i = 0;
    for (; n - i >= LANES; i += LANES) {
        double x[LANES];
        for (int l = 0; l < LANES; l++)
            x[l] = (double)logits[i + (size_t)l] - greatest;
        if (temperature != 1)
            for (int l = 0; l < LANES; l++)
                x[l] /= temperature;
        for (int l = 0; l < LANES; l++)
            sum[l] += exponential(x[l]);
    }
    for (size_t l = 0; i + l < n; l++)
        sum[l] += exponential(((double)logits[i + l] - greatest) / temperature);
    for (int half = LANES / 2; half; half /= 2)
        for (int l = 0; l < half; l++)
            sum[l] += sum[l + half];
    return sum[0];
}

#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) static double sum_avx2(const float *logits, size_t n,
                                                           double greatest, double temperature)
{
    return sum_of(logits, n, greatest, temperature);
}
#endif

double select_exponentials_plain(const float *logits, size_t n, float greatest, double temperature)
{
    return sum_of(logits, n, (double)greatest, temperature);
}

double select_exponentials(const float *logits, size_t n, float greatest, double temperature)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return sum_avx2(logits, n, (double)greatest, temperature);
#endif
    return select_exponentials_plain(logits, n, greatest, temperature);
}

double select_log_total(const float *logits, uint32_t n)
{
    float greatest = -INFINITY;
    bool nan = false;
    for (uint32_t i = 0; i < n; i++) {
        greatest = logits[i] > greatest ? logits[i] : greatest;
        nan |= isnan(logits[i]);
    }
    if (nan || greatest == INFINITY)
        return NAN;
    if (greatest == -INFINITY)
        return -INFINITY;
    return (double)greatest + exact_log(select_exponentials(logits, n, greatest, 1));
}

size_t select_raw(const float *logits, uint32_t n, uint32_t id, size_t k, uint32_t *ids,
                  double *values, double *chosen)
{
    double total = select_log_total(logits, n);
    size_t count = select_top(logits, n, k, ids);
    while (count > 0 && logits[ids[count - 1]] == -INFINITY)
        count--;
    for (size_t i = 0; i < count; i++)
        values[i] = (double)logits[ids[i]] - total;
    *chosen = (double)logits[id] - total;
    return count;
}
