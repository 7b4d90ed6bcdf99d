/* Which of the two libraries is linked; see src/version.rs. */
const int apex_cudart_version = APEX_CUDART_VERSION;
