// What plugin_host.c loads: found only by the RUNPATH of that library.
int plugin_answer(void);

int plugin_answer(void) {
    return 21;
}
