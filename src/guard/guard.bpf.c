// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Refuses names in the kernel, on the security hooks that every new name passes. scripts/build-guard compiles this file to
// guard.bpf.o, which the loader (src/guard/) embeds. The layouts of `table`, `event` and `counts` are those of its structs.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define SEC(name) __attribute__((section(name), used))
#define CORE __attribute__((preserve_access_index))
#define INLINE static inline __attribute__((always_inline))

// The few fields that are read, by name: the loader finds their offsets in the running kernel.
struct super_block { u32 s_dev; } CORE;
struct inode { unsigned long i_ino; } CORE;
struct qstr { u32 len; const unsigned char *name; } CORE;
struct dentry { struct dentry *d_parent; struct qstr d_name; struct inode *d_inode; struct super_block *d_sb; } CORE;

enum { SLOTS = 32, CELLS = 1 << 16, CHUNK = 64, LONGEST = 1024, DEEPEST = 4096, KEPT = 256 };
enum { ARRAY = 2, ARRAY_OF_MAPS = 12, RINGBUF = 27, PIN_BY_NAME = 1 };

// One guard: where it applies, and its policy as an automaton with limits beside it. Nobody changes it once it is in its slot.
struct table {
    u64 root;      // the inode of the tree's directory; 0 for the whole file system
    u32 device, audit;
    int error;     // what the caller gets, negative
    u32 stride, start, first_refusing;
    u32 max_bytes, max_utf16, max_code_points, unused;
    u8 classes[256];
    u16 next[CELLS];
};

struct counts { u64 refused, audited, lost; };

struct event {
    u64 time, directory;
    u32 slot, device, process, user, group, length;
    u8 operation, audit, unused[6], command[16], name[KEPT];
};

// What the loader and the kernel read of a map: its type, the sizes of a key and a value, the number of entries.
#define MAP(name, type_of, value_size_of, entries, pin) \
    struct { int (*type)[type_of]; int (*key_size)[4]; int (*value_size)[value_size_of]; int (*max_entries)[entries]; \
             int (*pinning)[pin]; } name SEC(".maps")

MAP(guards, ARRAY_OF_MAPS, 4, SLOTS, PIN_BY_NAME);            // a map of one `table` for each slot in use
MAP(devices, ARRAY, 4 * SLOTS, 1, PIN_BY_NAME);               // the device of each slot; 0 if it is free
MAP(counters, ARRAY, sizeof(struct counts), SLOTS, PIN_BY_NAME);
struct { int (*type)[RINGBUF]; int (*max_entries)[1 << 20]; int (*pinning)[PIN_BY_NAME]; } events SEC(".maps");

static void *(*lookup)(void *map, const void *key) = (void *)1;
static u64 (*now)(void) = (void *)5;
static u64 (*process_id)(void) = (void *)14;
static u64 (*user_id)(void) = (void *)15;
static long (*command_name)(void *to, u32 size) = (void *)16;
static long (*read_kernel)(void *to, u32 size, const void *from) = (void *)113;
static void *(*reserve)(void *ring, u64 size, u64 flags) = (void *)131;
static void (*submit)(void *data, u64 flags) = (void *)132;

INLINE struct table *table_of(u32 slot)
{
    u32 first = 0;
    void *guard = lookup(&guards, &slot);
    return guard ? lookup(guard, &first) : 0;
}

// Whether the guard in `slot` refuses the `length` bytes at `name`. A function of its own, which the kernel verifies once, and
// which the tests run as it is. A name that cannot be read is refused, and one longer than any file system stores.
__attribute__((noinline)) int refuses(u32 slot, u64 name, u32 length)
{
    u8 chunk[CHUNK] = {0}; // Linux 6.1 wants it so
    u32 utf16 = 0, code_points = 0;
    struct table *table = table_of(slot);
    if (!table)
        return 0;
    u32 state = table->start;
    if (length > LONGEST)
        return 1;
    for (u32 at = 0; at < LONGEST && at < length; at += CHUNK) {
        u32 size = length - at < CHUNK ? length - at : CHUNK;
        if (read_kernel(chunk, size, (void *)(name + at)))
            return 1;
        for (u32 i = 0; i < CHUNK && i < size; i++) {
            u8 byte = chunk[i];
            u32 begins = (byte & 0xC0) != 0x80;
            code_points += begins;
            utf16 += begins + (byte >= 0xF0);
            state = table->next[(state * table->stride + table->classes[byte]) & (CELLS - 1)];
        }
    }
    return state >= table->first_refusing || length > table->max_bytes || utf16 > table->max_utf16
        || code_points > table->max_code_points;
}

#define READ(to, from) read_kernel(&(to), sizeof(to), (const void *)&(from))

// Whether the directory of `entry` is the directory with inode `root`, or below it. A tree too deep to tell counts as below.
__attribute__((noinline)) int is_below(u64 entry, u64 root)
{
    struct dentry *at = (void *)entry, *parent;
    struct inode *inode;
    for (u32 depth = 0; depth < DEEPEST; depth++) {
        unsigned long number = 0;
        if (READ(parent, at->d_parent) || READ(inode, parent->d_inode) || READ(number, inode->i_ino))
            return 1;
        if (number == root)
            return 1;
        if (parent == at)
            return 0;
        at = parent;
    }
    return 1;
}

INLINE void report(u32 slot, struct table *table, struct dentry *entry, u8 operation)
{
    struct counts *count = lookup(&counters, &slot);
    if (!count)
        return;
    __sync_fetch_and_add(table->audit ? &count->audited : &count->refused, 1);
    struct event *event = reserve(&events, sizeof(*event), 0);
    if (!event) {
        __sync_fetch_and_add(&count->lost, 1);
        return;
    }
    u64 user = user_id();
    u32 length = entry->d_name.len;
    u32 kept = length < KEPT ? length : KEPT;
    event->time = now();
    event->directory = entry->d_parent->d_inode->i_ino;
    event->slot = slot;
    event->device = table->device;
    event->process = process_id() >> 32;
    event->user = user;
    event->group = user >> 32;
    event->length = length;
    event->operation = operation;
    event->audit = table->audit;
    command_name(event->command, sizeof(event->command));
    read_kernel(event->name, kept, entry->d_name.name);
    submit(event, 0);
}

// What the hook returns about the name of `entry`: 0, or the error of the first guard that refuses it.
INLINE int judge(struct dentry *entry, u8 operation)
{
    u32 first = 0, device = entry->d_sb->s_dev;
    u32 *guarded = lookup(&devices, &first);
    if (!guarded)
        return 0;
    for (u32 slot = 0; slot < SLOTS; slot++) {
        if (guarded[slot] != device || !refuses(slot, (u64)entry->d_name.name, entry->d_name.len))
            continue;
        struct table *table = table_of(slot);
        if (!table || table->device != device || (table->root && !is_below((u64)entry, table->root)))
            continue;
        report(slot, table, entry, operation);
        int error = table->error;
        if (!table->audit)
            return error < 0 && error >= -4095 ? error : -1;
    }
    return 0;
}

#define HOOK(hook, argument, operation) \
    SEC("lsm/" #hook) int hook(u64 *arguments) { return judge((struct dentry *)arguments[argument], operation); }

HOOK(inode_create, 1, 0)
HOOK(inode_mkdir, 1, 1)
HOOK(inode_mknod, 1, 2)
HOOK(inode_symlink, 1, 3)
HOOK(inode_link, 2, 4)
HOOK(inode_rename, 3, 5)

// For tests, on kernels that attach nothing to the hooks too: whether the guard in a slot refuses a name. The packet is a header of
// Ethernet, which the kernel looks at, the slot, the length, the name.
enum { HEADER = 14 };
struct __sk_buff { u32 len; };
struct question { u32 slot, length; u64 address; u8 name[LONGEST]; };
MAP(scratch, ARRAY, sizeof(struct question), 1, 0);
static long (*load_bytes)(const void *packet, u32 offset, void *to, u32 size) = (void *)26;

SEC("classifier") int check_name(struct __sk_buff *packet)
{
    u32 first = 0, size = packet->len - HEADER - 8;
    struct question *question = lookup(&scratch, &first);
    if (!question || load_bytes(packet, HEADER, question, 8) || size > LONGEST)
        return -1;
    if (size && load_bytes(packet, HEADER + 8, question->name, size))
        return -1;
    // Through memory the address becomes a number, as the address of a name in the kernel is one.
    *(volatile u64 *)&question->address = (u64)question->name;
    return refuses(question->slot, *(volatile u64 *)&question->address, question->length);
}

// The source that this object is of.
const char source_sha256[] SEC("source") = SOURCE_SHA256;
const char license_[] SEC("license") = "Dual MIT/GPL";
