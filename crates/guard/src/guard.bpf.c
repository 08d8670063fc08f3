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
struct inode { unsigned long i_ino; u32 i_generation; } CORE;
struct qstr { u32 len; const unsigned char *name; } CORE;
struct dentry { struct dentry *d_parent; struct qstr d_name; struct inode *d_inode; struct super_block *d_sb; } CORE;

enum { SLOTS = 32, CELLS = 1 << 16, CHUNK = 256, LONGEST = 1024, STEPS = 64, CLIMBS = 64, KEPT = 256, COMPONENTS = 24, PATH = 1024, NOTE = 1 << 15 };
enum { ARRAY = 2, ARRAY_OF_MAPS = 12, RINGBUF = 27, PIN_BY_NAME = 1 };

// One guard: where it applies, and its policy as an automaton with limits beside it. Once it is in its slot, only `ended` changes.
struct table {
    u64 root;       // the inode of the tree's directory; 0 for the whole file system
    u64 generation; // of that inode, whose number may be used again; ANY if the file system does not tell it
    u64 id;         // the guard's own number: slots and device numbers are used again
    u32 device, audit;
    int error;     // what the caller gets, negative
    u32 start, first_refusing; // a state is the index of the first of its transitions
    u32 max_bytes, max_utf16, max_code_points;
    u32 uncounted; // a name of at most so many bytes has no more units than the policy allows
    u32 note_length;
    u32 ended; // the file system was unmounted: another one can have its device number
    u32 unused;
    u8 classes[256];
    u16 next[CELLS + 256];
    u8 note[NOTE]; // what the loader wants to know of the guard later
};

// Where guards are: a program looks at this many slots, and a slot without device is free.
struct devices { u32 slots, device[SLOTS]; };

struct counts { u64 refused, audited, lost; };

struct event {
    u64 time, guard;
    u32 process, user, group, length;
    u8 operation, audit, is_cut, unused[5], command[16], name[KEPT];
    u32 path_length;
    u8 path[PATH + KEPT]; // the directories above, the innermost first: a byte with the length, then the name
};

// What the loader and the kernel read of a map: its type, the sizes of a key and a value, the number of entries.
#define MAP(name, type_of, value_size_of, entries, pin) \
    struct { int (*type)[type_of]; int (*key_size)[4]; int (*value_size)[value_size_of]; int (*max_entries)[entries]; \
             int (*pinning)[pin]; } name SEC(".maps")

MAP(guards, ARRAY_OF_MAPS, 4, SLOTS, PIN_BY_NAME);            // a map of one `table` for each slot in use
MAP(devices, ARRAY, sizeof(struct devices), 1, PIN_BY_NAME);
MAP(counters, ARRAY, sizeof(struct counts), SLOTS, PIN_BY_NAME);
struct { int (*type)[RINGBUF]; int (*max_entries)[1 << 21]; int (*pinning)[PIN_BY_NAME]; } events SEC(".maps");

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

#define UNREADABLE (~0ULL)

// The bytes at `from`, in words of which the lowest byte is the first.
#define READ_CHUNK(words, from, size) \
    u64 words[CHUNK / 8] = {0}; /* Linux 6.1 wants it so */ \
    if (size > CHUNK || read_kernel(words, size, (void *)(from))) \
        return UNREADABLE

// Keeps the compiler from what it knows of a number, so that the bounds stand where the kernel looks for them.
#define OPAQUE(number) asm volatile("" : "+r"(number))

// The bounds of a state and of a class are those of their types, and `next` is as long: the kernel sees that no sum is too large.
#define STEP(word) \
    state = table->next[state + table->classes[word & 0xFF]]; \
    word >>= 8; \
    OPAQUE(word)

// Where the automaton gets from `state` by `size` bytes at `from`. The kernel verifies each turn of a loop: so one chunk is a
// function, a name a loop of chunks, and a turn eight bytes.
__attribute__((noinline)) u64 walk(struct table *table, u64 from, u64 size, u32 begin)
{
    u32 state = begin & (CELLS - 1);
    if (!table)
        return UNREADABLE;
    READ_CHUNK(words, from, size);
    u32 at = 0;
    for (; at < CHUNK / 8 && at < size / 8; at++) {
        u64 word = words[at];
        STEP(word); STEP(word); STEP(word); STEP(word);
        STEP(word); STEP(word); STEP(word); STEP(word);
    }
    OPAQUE(at);
    if (at < CHUNK / 8) {
        u64 word = words[at];
        u32 left = size & 7;
        for (u32 i = 0; i < 7 && i < left; i++) {
            STEP(word);
        }
    }
    return state;
}

#define EACH_BYTE (~0ULL / 255)

// How many bytes of `size` at `from` continue a code point, and above them, from bit 32 on, how many begin one of two UTF-16 units.
// By arithmetic alone: each branch would double what the kernel verifies.
__attribute__((noinline)) u64 count(u64 from, u64 size)
{
    u64 continuing = 0, wide = 0;
    READ_CHUNK(words, from, size);
    for (u32 i = 0; i < CHUNK / 8; i++) {
        u64 word = words[i], upper = word >> 7 & word >> 6 & EACH_BYTE;
        continuing += ((word >> 7 & EACH_BYTE) - upper) * EACH_BYTE >> 56;
        wide += (upper & word >> 5 & word >> 4) * EACH_BYTE >> 56;
    }
    return continuing | wide << 32;
}

// Whether the guard refuses the `length` bytes at `name`. A function of its own, which the kernel verifies once, and
// which the tests run as it is. A name that cannot be read is refused, and one longer than any file system stores.
__attribute__((noinline)) int refuses(struct table *table, u64 name, u32 length)
{
    if (!table)
        return 0;
    if (length > LONGEST || length > table->max_bytes)
        return 1;
    u64 state = table->start, counted = 0;
    for (u32 at = 0; at < LONGEST && at < length; at += CHUNK) {
        u32 size = length - at < CHUNK ? length - at : CHUNK;
        state = walk(table, name + at, size, state);
        if (state == UNREADABLE)
            return 1;
    }
    if (state >= table->first_refusing)
        return 1;
    if (length <= table->uncounted)
        return 0;
    for (u32 at = 0; at < LONGEST && at < length; at += CHUNK) {
        u64 part = count(name + at, length - at < CHUNK ? length - at : CHUNK);
        if (part == UNREADABLE)
            return 1;
        counted += part;
    }
    u32 code_points = length - (u32)counted;
    return code_points > table->max_code_points || code_points + (counted >> 32) > table->max_utf16;
}

#define READ(to, from) read_kernel(&(to), sizeof(to), (const void *)&(from))

#define ANY (~0ULL)

// Climbs from `directory`: 1 if it is the directory with inode `root` or below it, 0 if not, or the ancestor to go on from.
__attribute__((noinline)) u64 climb(u64 directory, u64 root, u64 generation)
{
    struct dentry *at = (void *)directory, *parent;
    struct inode *inode;
    for (u32 step = 0; step < STEPS; step++) {
        unsigned long number = 0;
        u32 own = 0;
        if (READ(parent, at->d_parent) || READ(inode, at->d_inode) || READ(number, inode->i_ino)
            || READ(own, inode->i_generation))
            return 1;
        if (number == root && (generation == ANY || generation == own))
            return 1;
        if (parent == at)
            return 0;
        at = parent;
    }
    return (u64)at;
}

// Whether the directory at `at` is the directory with inode `root`, or below it. A tree too deep to tell counts as below. The loop
// is in two functions, because the kernel verifies each turn of a loop.
__attribute__((noinline)) int is_below(u64 at, u64 root, u64 generation)
{
    for (u32 climbs = 0; climbs < CLIMBS && at > 1; climbs++)
        at = climb(at, root, generation);
    return at != 0;
}

// Writes the names of the directories from `at` up to the root of the guard or of the file system.
INLINE void write_path(struct event *event, struct dentry *at, u64 root)
{
    struct dentry *parent;
    struct inode *inode;
    struct qstr name;
    u32 end = 0;
    event->is_cut = 1;
    for (u32 depth = 0; depth < COMPONENTS; depth++) {
        unsigned long number = 0;
        if (READ(parent, at->d_parent) || READ(inode, at->d_inode) || READ(number, inode->i_ino))
            break;
        if (parent == at || number == root) {
            event->is_cut = 0;
            break;
        }
        if (READ(name.len, at->d_name.len) || READ(name.name, at->d_name.name) || name.len > 255 || end + name.len >= PATH)
            break;
        u32 to = end, length = name.len;
        OPAQUE(to);
        to &= PATH - 1;
        OPAQUE(length);
        length &= 255;
        event->path[to] = length;
        if (read_kernel(event->path + to + 1, length, name.name))
            break;
        end += name.len + 1;
        at = parent;
    }
    event->path_length = end;
}

// Counts and reports that the guard refuses `length` bytes at `name`, to be an entry of `directory`. `how` is the operation, and from
// bit 32 on the slot: a function takes five arguments.
__attribute__((noinline)) int report(struct table *table, u64 directory, u64 name, u32 length, u64 how)
{
    u32 slot = how >> 32;
    struct counts *count = lookup(&counters, &slot);
    if (!table || !count)
        return 0;
    __sync_fetch_and_add(table->audit ? &count->audited : &count->refused, 1);
    struct event *event = reserve(&events, sizeof(*event), 0);
    if (!event) {
        __sync_fetch_and_add(&count->lost, 1);
        return 0;
    }
    u64 user = user_id();
    u32 kept = length < KEPT ? length : KEPT;
    event->time = now();
    event->guard = table->id;
    event->process = process_id() >> 32;
    event->user = user;
    event->group = user >> 32;
    event->length = length;
    event->operation = how;
    event->audit = table->audit;
    command_name(event->command, sizeof(event->command));
    read_kernel(event->name, kept, (void *)name);
    write_path(event, (struct dentry *)directory, table->root);
    submit(event, 0);
    return 0;
}

// What the hook returns about the name of `entry`: 0, or the error of the first guard that refuses it.
INLINE int judge(struct dentry *entry, u32 operation)
{
    u32 first = 0, device = entry->d_sb->s_dev, length = entry->d_name.len;
    struct devices *guarded = lookup(&devices, &first);
    if (!guarded)
        return 0;
    // Read by the helper an address is a number: functions that are verified apart take no pointers.
    struct dentry *directory = 0;
    const unsigned char *name = 0;
    for (u32 slot = 0; slot < SLOTS && slot < guarded->slots; slot++) {
        if (guarded->device[slot] != device)
            continue;
        if (!name && (READ(directory, entry->d_parent) || READ(name, entry->d_name.name)))
            return 0;
        // Looked up once: whatever takes the slot meanwhile, this is the guard that is asked, and that reports.
        struct table *table = table_of(slot);
        if (!table || table->device != device || table->ended || !refuses(table, (u64)name, length))
            continue;
        if (table->root && !is_below((u64)directory, table->root, table->generation))
            continue;
        report(table, (u64)directory, (u64)name, length, (u64)slot << 32 | operation);
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

// A file system ends, and with it its guards: the next one may get its device number.
SEC("lsm/sb_delete") int sb_delete(u64 *arguments)
{
    u32 first = 0, device = ((struct super_block *)arguments[0])->s_dev;
    struct devices *guarded = lookup(&devices, &first);
    if (!guarded)
        return 0;
    for (u32 slot = 0; slot < SLOTS && slot < guarded->slots; slot++) {
        if (guarded->device[slot] != device)
            continue;
        struct table *table = table_of(slot);
        if (table && table->device == device)
            table->ended = 1;
    }
    return 0;
}

// For tests, on kernels that attach nothing to the hooks too: whether the guard in a slot refuses a name, and a report that it does.
// The packet is a header of Ethernet, which the kernel looks at, the slot, the length, the name.
enum { HEADER = 14 };
struct __sk_buff { u32 len; };
struct question { u32 slot, length; u64 address; u8 name[LONGEST]; };
MAP(scratch, ARRAY, sizeof(struct question), 1, 0);
static long (*load_bytes)(const void *packet, u32 offset, void *to, u32 size) = (void *)26;

INLINE struct question *question_in(struct __sk_buff *packet)
{
    u32 first = 0, size = packet->len - HEADER - 8;
    struct question *question = lookup(&scratch, &first);
    if (!question || load_bytes(packet, HEADER, question, 8) || size > LONGEST)
        return 0;
    u32 last = size - 1;
    OPAQUE(last); // Linux 6.1 does not see that the size is not 0
    if (size && load_bytes(packet, HEADER + 8, question->name, (last & (LONGEST - 1)) + 1))
        return 0;
    // Through memory the address becomes a number, as the address of a name in the kernel is one.
    *(volatile u64 *)&question->address = (u64)question->name;
    return question;
}

SEC("classifier") int check_name(struct __sk_buff *packet)
{
    struct question *question = question_in(packet);
    if (!question)
        return -1;
    return refuses(table_of(question->slot), *(volatile u64 *)&question->address, question->length);
}

SEC("classifier") int report_name(struct __sk_buff *packet)
{
    struct question *question = question_in(packet);
    if (!question)
        return -1;
    return report(table_of(question->slot), 0, *(volatile u64 *)&question->address, question->length, (u64)question->slot << 32);
}

// The source that this object is of.
const char source_sha256[] SEC("source") = SOURCE_SHA256;
const char license_[] SEC("license") = "Dual MIT/GPL";
