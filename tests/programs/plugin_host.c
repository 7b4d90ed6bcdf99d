// A library with a RUNPATH of its own, from which it opens another library by its bare name.
//
// glibc decides by the return address of dlopen whose RUNPATH counts.
#include <dlfcn.h>
#include <stddef.h>

int host_answer(void);

int host_answer(void) {
    void *plugin = dlopen("libapex_test_plugin.so", RTLD_NOW);
    if (plugin == NULL)
        return -1;
    int (*answer)(void) = (int (*)(void))dlsym(plugin, "plugin_answer");
    return answer == NULL ? -2 : answer();
}
