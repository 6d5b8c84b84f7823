/* exact_exp and exact_tanh (lib/base/math.c), the same operations over sixteen lanes; for the
 * instruction sets' headers. */
#ifndef UNROLL_LANES_MATH_H
#define UNROLL_LANES_MATH_H

static inline lanes lanes_exp(lanes x)
{
    /* From 89 on the steps below give infinity.  Below -104 they would give 0, but slowly: an
     * underflow is an exception that the processor handles in microcode. */
    lanes bounded = lanes_min(lanes_set(89.0f), lanes_unless_less(x, lanes_set(-104.0f), x));
    lanes n = lanes_round(lanes_multiply(bounded, lanes_set(0x1.715476p+0f)));
    lanes r = lanes_fma(n, lanes_set(-0x1.62e4p-1f), bounded);
    r = lanes_fma(n, lanes_set(-0x1.7f7d1cp-20f), r);
    lanes p = lanes_set(0x1.a01a02p-13f);
    p = lanes_fma(p, r, lanes_set(0x1.6c16c2p-10f));
    p = lanes_fma(p, r, lanes_set(0x1.111112p-7f));
    p = lanes_fma(p, r, lanes_set(0x1.555556p-5f));
    p = lanes_fma(p, r, lanes_set(0x1.555556p-3f));
    p = lanes_fma(p, r, lanes_set(0.5f));
    p = lanes_fma(p, r, lanes_set(1.0f));
    p = lanes_fma(p, r, lanes_set(1.0f));
    return lanes_unless_less(x, lanes_set(-104.0f), lanes_scale(p, n));
}

static inline lanes lanes_tanh(lanes x)
{
    lanes z = lanes_multiply(x, x), p = lanes_set(-5.70498872745e-3f);
    p = lanes_fma(p, z, lanes_set(2.06390887954e-2f));
    p = lanes_fma(p, z, lanes_set(-5.37397155531e-2f));
    p = lanes_fma(p, z, lanes_set(1.33314422036e-1f));
    p = lanes_fma(p, z, lanes_set(-3.33332819422e-1f));
    lanes small = lanes_fma(lanes_multiply(p, z), x, x);
    lanes a = lanes_absolute(x), one = lanes_set(1.0f);
    lanes e = lanes_exp(lanes_add(a, a));
    lanes t = lanes_subtract(one, lanes_divide(lanes_set(2.0f), lanes_add(e, one)));
    return lanes_where_less(a, lanes_set(0.625f), small, lanes_sign_of(t, x));
}

#endif
