// Mean and squared distances from it, of parts that join exactly (Chan): a mean far from zero costs no digits, as
// it would where squares are added and the mean's taken off.

#define MOMENTS

template <class W> struct Moments {
    W count, mean, squares;
};
// The share may be off in its last place: it weighs a distance, which is small where the mean is far.
template <class W> __device__ __forceinline__ Moments<W> join_moments(Moments<W> a, Moments<W> b) {
    const W count = a.count + b.count;
    if (count == (W)0) return a;
    const W distance = b.mean - a.mean, share = b.count * Math<W>::reciprocal(count);
    return {count, a.mean + distance * share, a.squares + b.squares + distance * distance * a.count * share};
}
template <class W> __device__ __forceinline__ Moments<W> shuffled(Moments<W> moments, u32 step) {
    return {shuffled(moments.count, step), shuffled(moments.mean, step), shuffled(moments.squares, step)};
}
