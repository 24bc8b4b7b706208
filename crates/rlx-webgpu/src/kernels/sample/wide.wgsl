// 64-bit integers: (low, high)

fn add(a: vec2u, b: vec2u) -> vec2u {
    let low = a.x + b.x;
    return vec2u(low, a.y + b.y + u32(low < b.x));
}

fn subtract(a: vec2u, b: vec2u) -> vec2u {
    return vec2u(a.x - b.x, a.y - b.y - u32(a.x < b.x));
}

fn is_less(a: vec2u, b: vec2u) -> bool {
    return a.y < b.y || (a.y == b.y && a.x < b.x);
}

fn multiply(a: u32, b: u32) -> vec2u {
    let low = (a & 0xffffu) * (b & 0xffffu);
    let left = (a >> 16u) * (b & 0xffffu);
    let right = (a & 0xffffu) * (b >> 16u);
    let middle = (low >> 16u) + (left & 0xffffu) + (right & 0xffffu);
    let high = (a >> 16u) * (b >> 16u) + (left >> 16u) + (right >> 16u) + (middle >> 16u);
    return vec2u((low & 0xffffu) | (middle << 16u), high);
}

// 96 bits of a product, lowest word first.
fn multiply_long(a: vec2u, b: u32) -> vec3u {
    let low = multiply(a.x, b);
    let upper = add(multiply(a.y, b), vec2u(low.y, 0u));
    return vec3u(low.x, upper);
}

// ceil(sum / unit) where it is at most `most`: the smallest n with n * unit >= sum.
fn divide_up(sum: vec2u, unit: u32, most: u32) -> u32 {
    var low = 0u;
    var high = most;
    while low < high {
        let n = low + (high - low) / 2u;
        if is_less(multiply(n, unit), sum) { low = n + 1u; } else { high = n; }
    }
    return low;
}
